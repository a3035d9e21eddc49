package connect_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/connect"
	"github.com/placet-dev/placet/connect/connecttest"
	"github.com/placet-dev/placet/record"
)

// answeringServer says where people answer, as a Placet does.
func answeringServer(t *testing.T, change func(map[string]any)) (*connecttest.Issuer, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	public := "http://" + server.Listener.Addr().String()
	issuer := connecttest.New(t, public+"/console")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/console", func(w http.ResponseWriter, _ *http.Request) {
		m := map[string]any{"resource": public + "/console", "authorization_servers": []string{issuer.URL}, "scopes_supported": []string{"openid"},
			"placet_client_id": connecttest.ClientID, "placet_ask": "resource"}
		if change != nil {
			change(m)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m)
	})
	server.Config.Handler = mux
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return issuer, public
}

func open(t *testing.T, deny bool) func(context.Context, string) error {
	return func(ctx context.Context, url string) error {
		go func() {
			if _, err := connecttest.Browser(context.WithoutCancel(ctx), url, deny); err != nil {
				t.Log("browser:", err)
			}
		}()
		return nil
	}
}

// A person signs in for the answering audience, and what is stored is for its owner
// alone and no program's that proposes.
func TestLogin(t *testing.T) {
	issuer, public := answeringServer(t, nil)
	folder := filepath.Join(t.TempDir(), "login")
	now := time.Now()
	account := func(deny bool) *connect.Account {
		a, err := connect.NewAccount(connect.Options{Server: public + "/", Folder: folder, Open: open(t, deny), Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if token, err := account(false).Token(t.Context()); token != "" || err != nil {
		t.Fatalf("before: %q %v", token, err)
	}
	if err := account(true).Login(t.Context()); record.KindOf(err) != record.Forbidden {
		t.Errorf("a sign-in that was denied: %v", err)
	}
	if err := account(false).Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, err := account(false).Token(t.Context())
	if err != nil || token == "" {
		t.Fatalf("%q %v", token, err)
	}
	for _, path := range []string{"/authorize", "/oauth/token"} {
		all := issuer.Got(path)
		if len(all) == 0 {
			t.Fatalf("nothing came to %s", path)
		}
		for _, form := range all {
			if form.Get("resource") != public+"/console" || form.Has("scope") && form.Get("scope") != "openid" {
				t.Errorf("asked %s for %v", path, form)
			}
		}
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*"))
	if len(files) != 1 {
		t.Fatalf("stored: %v", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if servers, err := connect.SignedIn(folder); err != nil || len(servers) != 1 || servers[0] != public {
		t.Errorf("%v %v", servers, err)
	}
	// Without a refresh token, the sign-in ends with its token, and says so.
	now = now.Add(24 * time.Hour)
	if token, err := account(false).Token(t.Context()); token != "" || record.KindOf(err) != record.Unauthenticated {
		t.Errorf("a day later: %q %v", token, err)
	}
	if n, err := account(false).Logout(t.Context()); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if files, _ := filepath.Glob(filepath.Join(folder, "*")); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}

// Metadata that is another's, or names no client, signs nobody in.
func TestLoginRefusesWhatDoesNotMatch(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"another resource": func(m map[string]any) { m["resource"] = "https://elsewhere.example/console" },
		"the agents' door": func(m map[string]any) {
			m["resource"] = strings.TrimSuffix(m["resource"].(string), "/console") + "/mcp"
		},
		"no client": func(m map[string]any) { delete(m, "placet_client_id") },
		"no issuer": func(m map[string]any) { delete(m, "authorization_servers") },
	} {
		t.Run(name, func(t *testing.T) {
			issuer, public := answeringServer(t, change)
			folder := filepath.Join(t.TempDir(), "login")
			a, err := connect.NewAccount(connect.Options{Server: public, Folder: folder, Open: open(t, false)})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Login(t.Context()); err == nil {
				t.Error("signed in")
			}
			if got := issuer.Got("/authorize"); len(got) > 0 {
				t.Errorf("the browser went to the issuer: %v", got)
			}
		})
	}
	if _, err := connect.NewAccount(connect.Options{Server: "http://tools.example.com"}); err == nil {
		t.Error("a server in the clear")
	}
}
