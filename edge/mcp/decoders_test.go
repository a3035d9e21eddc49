package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"sync"
	"testing"
)

// reading is what some decoder takes a request for.
type reading struct{ Method, Name, Arguments string }

// upstreamReading is a tool server that trusts another decoder than Go's. It
// performs whatever call its decoder reads.
func upstreamReading(read func([]byte) (reading, error)) func(*ledger) http.Handler {
	return func(l *ledger) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			m, err := read(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			var id struct{ ID json.RawMessage }
			_ = json.Unmarshal(body, &id)
			result := ""
			switch m.Method {
			case "server/discover":
				result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
			case "tools/list":
				result = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` +
					`{"name":"echo","inputSchema":{"type":"object","additionalProperties":true}},{"name":"delete_file","inputSchema":{"type":"object"}}]}`
			case "tools/call":
				l.add("%s %s", m.Name, m.Arguments)
				result = `{"resultType":"complete","content":[{"type":"text","text":"ok"}]}`
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id.ID, result)
		})
	}
}

// Whatever decoder a tool server has, it performs the call that was decided, and
// none that was not: members in other case, duplicates and batches never get there.
func TestRule_C6_OtherDecodersUpstream(t *testing.T) {
	const registry = "version: 1\nservers: {up: {url: %q, tools_max_age: 1h}}\ndefaults: {per_minute: 100000}\ntools:\n  echo: {server: up, scope: use, read: true}\n"
	for name, read := range map[string]func(testing.TB) func([]byte) (reading, error){
		"JavaScript": javascript, "first wins": firstWins, "any case": anyCase,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOver(t, nil, upstreamReading(read(t)), registry)
			for _, d := range differentials {
				w.differential("modern", d.body, nil)
				w.differential("session", d.body, nil)
			}
			w.effects()
			if r := w.call(w.token("anna"), "echo", `{"Name":"x","b":[1],"a":"é"}`).tool(t); r.IsError {
				t.Fatalf("%+v", r)
			}
			w.effects(`echo {"Name":"x","a":"é","b":[1]}`)
		})
	}
}

// javascript reads as JSON.parse does, in a real engine: the last duplicate
// counts, names in their exact case.
func javascript(t testing.TB) func([]byte) (reading, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	const script = `require("readline").createInterface({input: process.stdin}).on("line", l => {
		let out = {};
		try { const m = JSON.parse(Buffer.from(l, "base64").toString()); const p = m.params || {};
			out = {Method: m.method, Name: p.name, Arguments: JSON.stringify(p.arguments)}; } catch (e) {}
		process.stdout.write(JSON.stringify(out) + "\n"); })`
	c := exec.Command(node, "-e", script)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	lines := bufio.NewReader(out)
	var mu sync.Mutex
	return func(body []byte) (reading, error) {
		mu.Lock()
		defer mu.Unlock()
		text, err := json.Marshal(body) // base64, quoted
		if err != nil {
			return reading{}, err
		}
		if _, err := fmt.Fprintf(in, "%s\n", bytes.Trim(text, `"`)); err != nil {
			return reading{}, err
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return reading{}, err
		}
		var m reading
		return m, json.Unmarshal(line, &m)
	}
}

// firstWins reads as decoders do for which the first of two equal names counts.
func firstWins(testing.TB) func([]byte) (reading, error) {
	first := func(text []byte, name string) json.RawMessage {
		d := json.NewDecoder(bytes.NewReader(text))
		if _, err := d.Token(); err != nil {
			return nil
		}
		for d.More() {
			key, err := d.Token()
			var v json.RawMessage
			if err != nil || d.Decode(&v) != nil {
				return nil
			}
			if key == name {
				return v
			}
		}
		return nil
	}
	text := func(v json.RawMessage) (s string) { _ = json.Unmarshal(v, &s); return s }
	return func(body []byte) (reading, error) {
		params := first(body, "params")
		return reading{text(first(body, "method")), text(first(params, "name")), string(first(params, "arguments"))}, nil
	}
}

// anyCase reads as encoding/json does.
func anyCase(testing.TB) func([]byte) (reading, error) {
	return func(body []byte) (reading, error) {
		var m struct {
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		err := json.Unmarshal(body, &m)
		return reading{m.Method, m.Params.Name, string(m.Params.Arguments)}, err
	}
}
