package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/registry"
)

// TestDispatchTokenGoesWithItsCall: in _meta everywhere, over HTTP also in a
// header, and with nothing else that is sent.
func TestDispatchTokenGoesWithItsCall(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		w := s.work("meta", `{}`)
		w.Token = func() (string, error) { return "tok.en.1", nil }
		if text := textOf(t, mustReach(t, v, w)); text != "tok.en.1" {
			t.Errorf("the server read %q", text)
		}
		if text := textOf(t, mustReach(t, v, s.work("meta", `{}`))); text != "" {
			t.Errorf("a call without a token carries %q", text)
		}
		if s.seen == nil {
			return
		}
		n := 0
		s.seen.each(func(r *http.Request) {
			if h := r.Header.Values("Placet-Dispatch-Token"); len(h) == 1 && h[0] == "tok.en.1" {
				n++
			} else if len(h) > 0 {
				t.Errorf("headers %q", h)
			}
		})
		if n != 1 {
			t.Errorf("%d requests carry the token", n)
		}
	})
}

func TestNothingIsSentWithoutItsToken(t *testing.T) {
	everywhere(t, func(t *testing.T, v *Invoker, s *target) {
		for name, sign := range map[string]func() (string, error){
			"fails": func() (string, error) { return "", errors.New("no key") },
			"empty": func() (string, error) { return "", nil },
		} {
			w := s.work("echo", `{}`)
			w.Token = sign
			if out := v.invoke(within(t), w); out.Sent || out.Err == nil {
				t.Errorf("%s: %+v", name, out)
			}
		}
		if n := s.ledger.count("echo"); n != 0 {
			t.Errorf("%d effects", n)
		}
	})
}

// A call that is sent again, since its session was over, carries another token:
// the first may have been used up.
func TestEachSendingHasItsOwnToken(t *testing.T) {
	l := newLedger(t)
	var mu sync.Mutex
	var handler http.Handler
	var tokens []string
	restart := func() {
		mu.Lock()
		defer mu.Unlock()
		s := newServer(l)
		handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	}
	restart()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handler
		if token := r.Header.Get("Placet-Dispatch-Token"); token != "" {
			tokens = append(tokens, token)
		}
		mu.Unlock()
		h.ServeHTTP(w, r)
	})
	s := &target{Server: &registry.Server{Name: "srv", URL: url}, ledger: l}
	v := open(t, Options{})
	mustReach(t, v, s.work("echo", `{"n":1}`))
	restart()
	made := 0
	w := s.work("echo", `{"n":2}`)
	w.Token = func() (string, error) { made++; return fmt.Sprintf("t%d", made), nil }
	mustReach(t, v, w)
	if got := strings.Join(tokens, " "); got != "t1 t2" {
		t.Errorf("tokens sent: %q", got)
	}
}

func TestEncodeToken(t *testing.T) {
	q := &request{method: "tools/call", name: "x", arguments: json.RawMessage(`{}`), token: `a"b`}
	if got := string(q.encode(1, legacy, "v")); got != `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"dev.placet/dispatch_token":"a\"b"},"name":"x","arguments":{}}}` {
		t.Error(got)
	}
}
