package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/registry"
)

// TestEveryRequestCarriesOneCredential: those of a call the call's, those that are
// nobody's our own; never two, never the other's.
func TestEveryRequestCarriesOneCredential(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		for _, shared := range []bool{false, true} {
			l, seen := newLedger(t), &requests{}
			srv := onHTTP(t, newServer(l), !legacy, !legacy, seen)
			url := srv.URL
			if legacy {
				url = serve(t, func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil || strings.Contains(string(body), "server/discover") {
						seen.note(r)
						w.WriteHeader(http.StatusNotFound)
						return
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
					srv.Config.Handler.ServeHTTP(w, r)
				})
			}
			s := &target{Server: &registry.Server{Name: "srv", URL: url, Credential: "c", Stateless: shared}, ledger: l}
			v := open(t, Options{Own: func(context.Context, *registry.Server) (Own, error) {
				return Own{Credential: dispatch.Credential{Header: "authorization", Value: "Bearer own"}}, nil
			}})
			if _, err := v.Offer(within(t), s.Server, "echo", 0); err != nil {
				t.Fatal(err)
			}
			for _, value := range []string{"Bearer call-1", "Bearer call-2"} {
				w := s.work("steps", `{"n":2,"name":"x"}`)
				w.Credential = dispatch.Credential{Header: "Authorization", Value: value}
				mustReach(t, v, w)
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			calls, own, methods := 0, 0, map[string]int{}
			seen.each(func(r *http.Request) {
				all := r.Header.Values("Authorization")
				methods[r.Method]++
				if len(all) != 1 {
					t.Errorf("legacy %t: %s carries %q", legacy, r.Method, all)
					return
				}
				switch {
				case strings.HasPrefix(all[0], "Bearer call-"):
					calls++
				case all[0] == "Bearer own":
					own++
				default:
					t.Errorf("%q", all)
				}
			})
			if legacy && (methods[http.MethodDelete] == 0 || methods[http.MethodGet] == 0) {
				t.Errorf("the session's own requests were not seen: %v", methods)
			}
			if calls < 2 || own < 1 {
				t.Errorf("legacy %t, shared %t: %d requests with the calls' credentials, %d with our own", legacy, shared, calls, own)
			}
		}
	}
}

// TestNoCredentialNoRequest: a server that needs one gets nothing without it.
func TestNoCredentialNoRequest(t *testing.T) {
	var asked atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.WriteHeader(http.StatusNotFound) })
	s := &registry.Server{Name: "srv", URL: url, Credential: "c"}
	for name, o := range map[string]Options{
		"nobody obtains any": {},
		"the issuer is down": {Own: func(context.Context, *registry.Server) (Own, error) { return Own{}, errors.New("down") }},
	} {
		if _, err := open(t, o).ListOffers(within(t), s); err == nil || asked.Load() != 0 {
			t.Errorf("%s: %v, %d requests", name, err, asked.Load())
		}
	}
}

// TestACredentialDoesNotFollowRedirects: the place that a server points to gets nothing.
func TestACredentialDoesNotFollowRedirects(t *testing.T) {
	var elsewhere atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	s := &target{Server: &registry.Server{Name: "srv", URL: url}, ledger: newLedger(t)}
	w := s.work("echo", `{}`)
	w.Credential = dispatch.Credential{Header: "Authorization", Value: "Bearer x"}
	if out := open(t, Options{}).invoke(within(t), w); out.Result != nil || elsewhere.Load() != 0 {
		t.Errorf("%+v, %d requests elsewhere", out, elsewhere.Load())
	}
}

// TestOneCallersCredentialDelaysNobodyElse: a caller whose token a server does not take
// opens no session, and the next caller is not made to wait for that.
func TestOneCallersCredentialDelaysNobodyElse(t *testing.T) {
	l := newLedger(t)
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer(l) }, nil)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
	s := &target{Server: &registry.Server{Name: "srv", URL: url}, ledger: l}
	v := open(t, Options{})
	var refused atomic.Int64
	for range 10 {
		w := s.work("echo", `{}`)
		w.Owner.Principal.Subject = "mallory"
		w.Credential = dispatch.Credential{Header: "Authorization", Value: "Bearer bad", Refused: func() { refused.Add(1) }}
		if out := v.invoke(within(t), w); out.Sent || out.Err == nil {
			t.Fatalf("%+v", out)
		}
	}
	w := s.work("echo", `{}`)
	w.Credential = dispatch.Credential{Header: "Authorization", Value: "Bearer good"}
	mustReach(t, v, w)
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, e := range v.endpoints {
		if e.failures != 0 {
			t.Errorf("%d failures count against the server", e.failures)
		}
	}
	if refused.Load() != 10 || l.count("echo") != 1 {
		t.Errorf("%d refusals were told, %d effects", refused.Load(), l.count("echo"))
	}
}

// TestACommandsSecretIsNotInItsLastWords: what a child says while it fails to start is
// for operators, and its secret is not.
func TestACommandsSecretIsNotInItsLastWords(t *testing.T) {
	s := &registry.Server{Name: "srv", Command: []string{"/bin/sh", "-c", `echo "TOKEN is $TOKEN" >&2; exit 1`}, Credential: "c"}
	v := open(t, Options{Own: func(context.Context, *registry.Server) (Own, error) {
		return Own{Variable: "TOKEN", Value: "hunter2"}, nil
	}})
	_, err := v.ListOffers(within(t), s)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "TOKEN is (redacted)") {
		t.Errorf("%v", err)
	}
}
