package placet

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// TestRule_J3_IngressAtBothDoors: beyond its rate a caller gets 429 at each door and
// nothing runs; somebody else's call does, and one event tells of the refusals.
func TestRule_J3_IngressAtBothDoors(t *testing.T) {
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, "", func(o *Options) {
		o.Local, o.Tenants = issuer, []string{"acme"}
		o.Config.Ingress = config.Ingress{PerSecond: 1, Burst: 4}
	})
	sign := func(subject string) string {
		token, err := issuer.Sign(identity.TokenSpec{Audience: s.placet.o.Config.Audience(), Subject: subject, Tenant: "acme", Agent: "bot", Scopes: []string{"tickets:read"}})
		if err != nil {
			t.Fatal(err)
		}
		return "Authorization: Bearer " + token
	}
	mallory, anna := sign("mallory"), sign("anna")
	statuses := map[int]int{}
	for range 20 {
		for _, d := range doors {
			status, text := wire(t, s.url, "POST", d.path, d.body(""), append([]string{mallory}, d.headers...)...)
			statuses[status]++
			if status == http.StatusTooManyRequests && strings.Contains(text, "root") {
				t.Errorf("the refusal tells what was sent: %s", text)
			}
		}
	}
	ran := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.ledger)
	}
	before := ran()
	if statuses[http.StatusTooManyRequests] < 20 || statuses[http.StatusOK] < 4 || before != statuses[http.StatusOK] || len(statuses) != 2 {
		t.Errorf("statuses %v, ran %d", statuses, before)
	}
	for _, d := range doors {
		if status, text := wire(t, s.url, "POST", d.path, d.body(""), append([]string{anna}, d.headers...)...); status != http.StatusOK {
			t.Errorf("%s: somebody else's call: %d %s", d.name, status, text)
		}
	}
	if n := ran() - before; n != 2 {
		t.Errorf("somebody else's two calls ran %d times", n)
	}
	s.placet.ingress.Close() // tells now what the minute would
	var told []record.Event
	for _, e := range s.events("acme", 0) {
		if e.Kind == record.EventThrottled {
			told = append(told, e)
		}
	}
	if len(told) != 1 || told[0].Who.Principal == nil || told[0].Who.Principal.Subject != "mallory" {
		t.Errorf("throttled events: %+v", told)
	}
}
