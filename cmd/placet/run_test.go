package main

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/placet-dev/placet/record"
)

// inProcess runs a command as tests of other packages may: nothing but its
// parameters.
func inProcess(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &err, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	return code, out.String(), err.String()
}

func TestRunTakesAllItTouches(t *testing.T) {
	if code, out, _ := inProcess(t, nil, "version"); code != 0 || !strings.HasPrefix(out, "placet ") {
		t.Errorf("%d %q", code, out)
	}
	if code, out, _ := inProcess(t, nil, "--help"); code != 0 || !strings.Contains(out, "Exit codes:") {
		t.Errorf("%d %q", code, out)
	}
	if code, _, err := inProcess(t, nil, "--json", "nothing"); code != 2 || !strings.HasPrefix(err, `{"error":{"kind":"invalid"`) {
		t.Errorf("%d %q", code, err)
	}
}

// What a server answers decides the exit code, whoever the server is.
func TestAnswersBecomeExitCodes(t *testing.T) {
	for _, c := range []struct {
		name, kind, body string
		status, exit     int
	}{
		{"ran", "application/json", `{"verdict":"allow","state":"succeeded","text":"ok"}`, 200, 0},
		{"asked", "application/json", `{"verdict":"requires-approval","state":"approval_pending","text":"Waiting"}`, 202, 11},
		{"unknown", "application/json", `{"verdict":"allow","state":"unknown","code":"outcome_unknown"}`, 202, 11},
		{"denied", "application/problem+json", `{"detail":"Denied: x","code":"not_available","verdict":"deny","status":403}`, 403, 1},
		{"forbidden", "application/problem+json", `{"detail":"no","code":"forbidden","status":403}`, 403, 4},
		{"limited", "application/problem+json", `{"detail":"later","code":"limited","status":429}`, 429, 7},
		{"another code", "application/problem+json", `{"detail":"no","code":"unsupported_media_type","status":415}`, 415, 2},
		{"a proxy's page", "text/html", `<html>`, 502, 9},
		{"a redirect", "text/html", ``, 302, 9},
		{"no JSON", "application/json", `{`, 200, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("Placet-Workload") != "key" {
					t.Errorf("headers %v", r.Header)
				}
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer s.Close()
			env := map[string]string{"PLACET_TOKEN": "secret", "PLACET_WORKLOAD_KEY": "key"}
			code, out, err := inProcess(t, env, "calls", "propose", "x", "--server", s.URL)
			if code != c.exit {
				t.Errorf("exit %d, want %d\n%s%s", code, c.exit, out, err)
			}
			if strings.Contains(out+err, "secret") {
				t.Errorf("the token is printed:\n%s%s", out, err)
			}
		})
	}
}

// What an agent wrote cannot draw on the approver's terminal.
func TestQuestionIsShownAsData(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"x","state":"pending","binding":"sha256:aa","call":{"tool":"t","arguments":{"id":"\u202e\u001b[2J"},` +
			`"effect":"Close \u001b[8m","purpose":"\u009b1A\nbinding sha256:bb"},"preview":{"tool":"p","text":"would \u001b[2Jgo\nbinding sha256:bb"},"targets":[],"rule":[],"answers":[]}`))
	}))
	defer s.Close()
	id, err := record.NewID("apr", record.Call{}.Proposed, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	code, out, errOut := inProcess(t, map[string]string{"PLACET_TOKEN": "x"}, "approvals", "show", id, "--server", s.URL)
	if code != 0 || strings.ContainsAny(out, "\x1b\u009b\u202e") || strings.Contains(out, "\nbinding sha256:bb") {
		t.Errorf("%d\n%q\n%s", code, out, errOut)
	}
	if !strings.Contains(out, "U+202E") || !strings.Contains(out, "Close ⟦U+001B") || !strings.Contains(out, `by p, when it was asked: "would ⟦U+001B`) {
		t.Errorf("what is hidden must be seen:\n%s", out)
	}
}

// What undoes a call is named where the server names it to who may read it, and nowhere
// else.
func TestCallsShowWhatUndoesThem(t *testing.T) {
	for body, named := range map[string]bool{`,"operators":{"lineage":"l","compensate":"reverse_refund"}`: true, ``: false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"id":"x","state":"succeeded","tool":"refund","arguments":{},"reasons":[]` + body + `}`))
		}))
		id, err := record.NewID("call", record.Call{}.Proposed, zeros{})
		if err != nil {
			t.Fatal(err)
		}
		code, out, errOut := inProcess(t, map[string]string{"PLACET_TOKEN": "x"}, "calls", "show", id, "--server", s.URL)
		s.Close()
		if code != 0 || strings.Contains(out, "reverse_refund") != named || strings.Contains(out, "undone by") != named {
			t.Errorf("%d %s\n%s", code, out, errOut)
		}
	}
}

// A redacted call says so where it and its question are printed; names and reasons are data.
func TestRedactedCallIsPrintedAsSuch(t *testing.T) {
	const call = `"tool":"refund","state":"succeeded","reasons":[],"arguments":null,"redacted":{"at":"2026-12-01T09:00:00Z","why":"asked \u001b[2Jfor","what":["arguments.\u202ex","salt"]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/v1/calls/") {
			_, _ = w.Write([]byte(`{"id":"x",` + call + `}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"x","state":"consumed","binding":"sha256:aa","call":{"id":"x",` + call + `},"targets":[],"rule":[],"answers":[],` +
			`"since":{"approval":"y","at":"2026-12-01T08:00:00Z","rows":[],"redacted":true}}`))
	}))
	defer s.Close()
	for prefix, args := range map[string][]string{"call": {"calls", "show"}, "apr": {"approvals", "show"}} {
		id, err := record.NewID(prefix, record.Call{}.Proposed, zeros{})
		if err != nil {
			t.Fatal(err)
		}
		code, out, errOut := inProcess(t, map[string]string{"PLACET_TOKEN": "x"}, append(args, id, "--server", s.URL)...)
		if code != 0 || !strings.Contains(out, "redacted") || !strings.Contains(out, "2026-12-01 09:00:00Z: arguments.") || strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("%v: %d\n%q\n%s", args, code, out, errOut)
		}
		if prefix == "apr" && !strings.Contains(out, "so that nothing is compared") {
			t.Errorf("it does not say why it compares nothing:\n%s", out)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestTokensDoNotTravelInTheClear(t *testing.T) {
	for base, ok := range map[string]bool{
		"https://tools.example.com": true, "http://127.0.0.1:8088": true, "http://[::1]:8088": true, "http://localhost:1": true,
		"http://tools.example.com": false, "http://10.0.0.1": false, "ftp://x": false, "tools.example.com": false, "https://user:pw@x": false,
		"http://127.0.0.1.example.com": false, "": false,
	} {
		if err := secure(base); (err == nil) != ok {
			t.Errorf("secure(%q): %v", base, err)
		}
	}
}

func TestErrorsOfThisMachineHaveKinds(t *testing.T) {
	for err, want := range map[error]record.Kind{
		&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}:   record.NotFound,
		&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}: record.Forbidden,
		&fs.PathError{Op: "open", Path: "x", Err: fs.ErrExist}:      record.Conflict,
		record.Errorf(record.Limited, "x"):                          record.Limited,
		http.ErrBodyNotAllowed:                                      record.Internal,
	} {
		if got := kindOf(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

func TestAmountsAreDecimals(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"a":"60.00"}`: "60.00", `{"a":60}`: "60", `{"a":"1e3"}`: "1e3",
		`{"a":"1/3"}`: "", `{"a":"x"}`: "", `{"a":null}`: "", `{}`: "", `{"a":["1"]}`: "", `{"a":"0x10"}`: "", `{"a":""}`: "",
	} {
		got, ok := amountOf([]byte(arguments), "a")
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", arguments, got, ok)
		}
	}
}
