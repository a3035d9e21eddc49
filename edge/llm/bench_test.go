package llm_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/edge/llm/llmtest"
	"github.com/placet-dev/placet/identity"
)

// BenchmarkPass compares asking through a whole server, with its store, with asking
// the provider itself: how much later the first byte of a short answer comes, in the
// median, and how fast a long stream passes. It is on loopback, where the provider
// takes no time: a long stream keeps every core busy from its first event on, which no
// model does, so the first byte is that of another answer.
func BenchmarkPass(b *testing.B) {
	long, short := llmtest.Reply{Text: strings.Repeat("word ", 5_000)}, llmtest.Reply{Text: "a few words"}
	var reply atomic.Pointer[llmtest.Reply]
	provider := &llmtest.Provider{Respond: func(llmtest.Request) llmtest.Reply { return *reply.Load() }}
	upstream := httptest.NewServer(provider)
	defer upstream.Close()
	url, token := serve(b, upstream.URL)
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("history=%dKiB", size>>10), func(b *testing.B) {
			body := `{"model":"m","stream":true,"messages":[`
			for n := 0; len(body) < size; n++ {
				body += fmt.Sprintf(`{"role":"user","content":%q},{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"look","arguments":"{\"n\":%d}"}}]},{"role":"tool","tool_call_id":"c%d","content":%q},`, "please look", n, n, n, strings.Repeat("found ", 150))
			}
			both := func(kind string, answer *llmtest.Reply) (direct, through measured) {
				reply.Store(answer)
				for n := range b.N {
					body := body + fmt.Sprintf(`{"role":"user","content":"%s question %d"}]}`, kind, n)
					direct.ask(b, upstream.URL+"/chat/completions", "", body)
					through.ask(b, url+"/llm/fake/v1/chat/completions", token, body)
					provider.Requests()
				}
				return direct, through
			}
			direct, through := both("short", &short)
			added := through.firstByte() - direct.firstByte()
			direct, through = both("long", &long)
			b.ReportMetric(float64(added.Microseconds())/1000, "ms-added-to-first-byte")
			b.ReportMetric(direct.rate(), "direct-MB/s")
			b.ReportMetric(through.rate()/direct.rate(), "of-direct-throughput")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func serve(b *testing.B, upstream string) (url, token string) {
	b.Helper()
	door := httptest.NewUnstartedServer(nil)
	url = "http://" + door.Listener.Addr().String()
	dir := b.TempDir()
	for name, text := range map[string]string{"tools.yaml": "version: 1\n", "placet.yaml": "version: 1\nenvironment: test\npublic_url: " + url +
		"\nstore: sqlite:state.db\nregistry: [tools.yaml]\ningress: {per_second: 0}\nproviders: {fake: {api: openai, url: \"" + upstream + "\"}}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	local, err := identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	p, err := placet.Open(b.Context(), placet.Options{Config: c, Local: local, Tenants: []string{"acme"}})
	if err != nil {
		b.Fatal(err)
	}
	door.Config.Handler = p.Handler()
	door.Start()
	b.Cleanup(func() { door.CloseClientConnections(); door.Close(); _ = p.Close() })
	token, err = local.Sign(identity.TokenSpec{Audience: url + "/mcp", Subject: "anna", Tenant: "acme", Agent: "bot", TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	return url, token
}

// measured is what some exchanges took.
type measured struct {
	first []time.Duration
	bytes int64
	took  time.Duration // after the first byte
}

func (m *measured) ask(b *testing.B, url, token, body string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	began := time.Now()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var one [1]byte
	if _, err := io.ReadFull(resp.Body, one[:]); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%d %v", resp.StatusCode, err)
	}
	first := time.Now()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	m.first, m.bytes, m.took = append(m.first, first.Sub(began)), m.bytes+n, m.took+time.Since(first)
}

func (m *measured) firstByte() time.Duration {
	slices.Sort(m.first)
	return m.first[len(m.first)/2]
}

func (m *measured) rate() float64 { return float64(m.bytes) / 1e6 / m.took.Seconds() }
