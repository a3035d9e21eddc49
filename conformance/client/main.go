// Command client is an MCP client for the suite's client scenarios, whose
// transport and OAuth client are package connect: it writes an initialize, a
// tools/list and calls of every tool to a bridge, as a desktop client would.
//
// The suite appends the server's URL, and names client credentials in
// MCP_CONFORMANCE_CONTEXT. The browser follows redirects; the suite's issuer shows
// no page.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/placet-dev/placet/connect"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// call is a tool call that the scenario wants.
type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// metadata is the document that the suite's issuer takes as a client ID.
const metadata = "https://conformance-test.local/client-metadata.json"

func run(ctx context.Context) error {
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Calls  []call `json:"toolCalls"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}
	bridge, err := connect.New(connect.Options{Server: os.Args[len(os.Args)-1], ClientID: given.ID, ClientSecret: given.Secret,
		ClientMetadata: metadata, Open: follow, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	in, send := io.Pipe()
	receive, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- out.CloseWithError(bridge.Serve(ctx, in, out)) }()
	err = play(send, bufio.NewReaderSize(receive, 1<<20), given.Calls)
	return errors.Join(err, send.Close(), <-ended)
}

// follow is the browser.
func follow(ctx context.Context, url string) error {
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	return nil
}

// play speaks the revision that the scenario is for, and makes its calls; where it
// names none, one of every tool, with arguments that those of the suite take.
func play(to io.Writer, from *bufio.Reader, calls []call) error {
	c := &client{to: to, from: from, version: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")}
	if !c.modern() {
		if _, err := c.ask("initialize", fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"placet connect","version":"1"}`, c.version)); err != nil {
			return err
		}
		if _, err := io.WriteString(to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
			return err
		}
	}
	text, err := c.ask("tools/list", "")
	if err != nil {
		return err
	}
	var list struct {
		Tools []call `json:"tools"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if len(calls) == 0 {
		calls = list.Tools
	}
	for _, call := range calls {
		if call.Arguments == nil {
			call.Arguments = json.RawMessage(`{"a":5,"b":3}`)
		}
		if _, err := c.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, call.Name, call.Arguments)); err != nil {
			return err
		}
	}
	return nil
}

type client struct {
	to      io.Writer
	from    *bufio.Reader
	version string
	last    int
}

func (c *client) modern() bool { return c.version >= "2026" }

// ask sends a request and returns its result. Notifications are passed over.
func (c *client) ask(method, params string) (json.RawMessage, error) {
	c.last++
	if c.modern() {
		params = strings.TrimPrefix(params+fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{},`+
			`"io.modelcontextprotocol/clientInfo":{"name":"placet connect","version":"1"}}`, c.version), ",")
	}
	if _, err := fmt.Fprintf(c.to, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`+"\n", c.last, method, params); err != nil {
		return nil, err
	}
	for {
		line, err := c.from.ReadString('\n')
		if err != nil {
			return nil, err
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return nil, err
		}
		switch {
		case m.Method != "" && m.ID != nil: // a request of the server, for which there is nobody
			if _, err := fmt.Fprintf(c.to, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not offered"}}`+"\n", m.ID); err != nil {
				return nil, err
			}
		case string(m.ID) != strconv.Itoa(c.last):
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, m.Error)
		default:
			return m.Result, nil
		}
	}
}
