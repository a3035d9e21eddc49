package identity_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func TestCredentialsFrom(t *testing.T) {
	for name, test := range map[string]struct {
		h    http.Header
		want identity.Credentials
	}{
		"token":         {http.Header{"Authorization": {"Bearer a.b-c_d"}}, identity.Credentials{Bearer: "a.b-c_d"}},
		"scheme's case": {http.Header{"Authorization": {"bEARER  abc=="}}, identity.Credentials{Bearer: "abc=="}},
		"key":           {http.Header{"Placet-Workload": {"plk_x"}}, identity.Credentials{WorkloadKey: "plk_x"}},
		"both":          {http.Header{"Authorization": {"Bearer t"}, "Placet-Workload": {"plk_x"}}, identity.Credentials{Bearer: "t", WorkloadKey: "plk_x"}},
		"look-alikes are nothing": {http.Header{
			"Authorization": {"Bearer t"}, "X-Authorization": {"Bearer u"}, "Proxy-Authorization": {"Bearer v"}, "X-Forwarded-User": {"root"}, "X-Remote-User": {"root"},
			"Cookie": {"token=w"}, "Placet-Workload-Name": {"ci"}, "X-Placet-Workload": {"plk_y"}, "Placet_workload": {"plk_z"},
		}, identity.Credentials{Bearer: "t"}},
	} {
		if got, err := identity.CredentialsFrom(test.h); err != nil || got.Bearer != test.want.Bearer || got.WorkloadKey != test.want.WorkloadKey {
			t.Errorf("%s: got %q, %q, %v", name, got.Bearer, got.WorkloadKey, err)
		}
	}
	for name, h := range map[string]http.Header{
		"nothing":             {},
		"look-alikes":         {"X-Authorization": {"Bearer u"}, "Proxy-Authorization": {"Bearer v"}, "X-Forwarded-User": {"root"}},
		"twice":               {"Authorization": {"Bearer a", "Bearer b"}},
		"twice the same":      {"Authorization": {"Bearer a", "Bearer a"}},
		"twice by case":       {"Authorization": {"Bearer a"}, "authorization": {"Bearer b"}},
		"joined":              {"Authorization": {"Bearer a, Bearer b"}},
		"empty":               {"Authorization": {""}, "Placet-Workload": {"plk_x"}},
		"no token":            {"Authorization": {"Bearer "}},
		"only padding":        {"Authorization": {"Bearer =="}},
		"no scheme":           {"Authorization": {"abc"}},
		"basic":               {"Authorization": {"Basic YTpi"}},
		"spaces":              {"Authorization": {"Bearer a b"}},
		"tab":                 {"Authorization": {"Bearer\ta"}},
		"control":             {"Authorization": {"Bearer a\x00"}},
		"long":                {"Authorization": {"Bearer " + strings.Repeat("a", 20_000)}},
		"key twice":           {"Authorization": {"Bearer a"}, "Placet-Workload": {"plk_a", "plk_b"}},
		"key twice by case":   {"Authorization": {"Bearer a"}, "Placet-Workload": {"plk_a"}, "placet-workload": {"plk_b"}},
		"key empty":           {"Authorization": {"Bearer a"}, "Placet-Workload": {""}},
		"key with a space":    {"Authorization": {"Bearer a"}, "Placet-Workload": {"plk_a plk_b"}},
		"key as comma joined": {"Authorization": {"Bearer a"}, "Placet-Workload": {"plk_a,plk_b"}},
	} {
		if got, err := identity.CredentialsFrom(h); record.KindOf(err) != record.Unauthenticated || got != (identity.Credentials{}) {
			t.Errorf("%s: got %q, %q, %v", name, got.Bearer, got.WorkloadKey, err)
		}
	}
}

func TestSecretsShowThemselvesAsRedacted(t *testing.T) {
	c := identity.Credentials{Bearer: "hunter2", WorkloadKey: "plk_hunter2"}
	l := must(identity.NewLocal("dev", strings.NewReader(strings.Repeat("hunter2.", 8)), newClock().now))
	for _, secret := range []any{c, &c, l} {
		var logged strings.Builder
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", secret)
		asJSON, _ := json.Marshal(map[string]any{"secret": secret})
		for _, shown := range []string{fmt.Sprint(secret), fmt.Sprintf("%+v %#v %s %q", secret, secret, secret, secret), logged.String(), string(asJSON)} {
			if strings.Contains(shown, "hunter2") || strings.Contains(shown, "104, 117") || !strings.Contains(shown, "redacted") {
				t.Errorf("shows %s", shown)
			}
		}
	}
}

// Whatever a client sends as headers, what comes out was sent once and as such.
func FuzzCredentialsFrom(f *testing.F) {
	for _, s := range []string{
		"Authorization: Bearer abc\r\n", "authorization: bearer abc\r\nAuthorization: Bearer def\r\n", "Authorization : Bearer a\r\n", "Authorization: Bearer a\r\n b\r\n",
		"Placet-Workload: plk_a\r\nPLACET-WORKLOAD: plk_b\r\n", "X-Authorization: Bearer x\r\n", "Authorization: Bearer a,b\r\n", "\u212aey: x\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, headers string) {
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n")))
		if err != nil {
			return
		}
		c, err := identity.CredentialsFrom(req.Header)
		if err != nil {
			if c != (identity.Credentials{}) {
				t.Fatal("credentials beside an error")
			}
			return
		}
		if a := req.Header.Values("Authorization"); c.Bearer != "" && (len(a) != 1 || !strings.HasSuffix(a[0], " "+c.Bearer)) || c.Bearer == "" && len(a) > 0 {
			t.Fatalf("%q gives %q", a, c.Bearer)
		}
		if w := req.Header.Values("Placet-Workload"); c.WorkloadKey != "" && (len(w) != 1 || w[0] != c.WorkloadKey) || c.WorkloadKey == "" && len(w) > 0 {
			t.Fatalf("%q gives %q", w, c.WorkloadKey)
		}
		if c.Bearer == "" && c.WorkloadKey == "" || strings.ContainsAny(c.Bearer+c.WorkloadKey, " ,\t\r\n\x00\"") {
			t.Fatalf("credentials %q, %q", c.Bearer, c.WorkloadKey)
		}
	})
}
