package ingress_test

import (
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/ingress"
	"github.com/placet-dev/placet/record"
)

func callers(t *testing.T, names ...string) (out []identity.Caller) {
	t.Helper()
	local, err := identity.NewLocal("urn:test", rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := local.Issuer("placet", "console", []string{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := identity.New(identity.Config{Issuers: []identity.Issuer{issuer}}, identity.Deps{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		token, err := local.Sign(identity.TokenSpec{Audience: "placet", Subject: name, Tenant: "acme", Agent: "bot", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		c, err := verifier.Caller(t.Context(), identity.Credentials{Bearer: token})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// A flood is refused beyond its rate, told once a window with its number, and takes
// nothing from anybody else.
func TestRule_J3_IngressLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := callers(t, "mallory", "anna")
		told := map[string][]int64{}
		l := ingress.New(ingress.Options{PerSecond: 10, Burst: 20, Clock: time.Now,
			Refused: func(o record.Owner, n int64) { told[o.Principal.Subject] = append(told[o.Principal.Subject], n) }})
		send := func(c identity.Caller, n int) (admitted int) {
			for range n {
				switch err := l.Admit(t.Context(), c); record.KindOf(err) {
				case record.Limited:
				default:
					if err != nil {
						t.Fatal(err)
					}
					admitted++
				}
			}
			return admitted
		}
		if n := send(who[0], 500); n != 20 {
			t.Errorf("%d of the flood were admitted, want the burst of 20", n)
		}
		if n := send(who[1], 20); n != 20 {
			t.Errorf("%d of the other's 20 were admitted", n)
		}
		time.Sleep(time.Second) // the bubble's clock
		if n := send(who[0], 15); n != 10 {
			t.Errorf("%d were admitted a second later, want 10", n)
		}
		time.Sleep(ingress.Window)
		synctest.Wait()
		send(who[0], 25)
		l.Close()
		if got := told["mallory"]; len(got) != 2 || got[0] != 485 || got[1] != 5 || len(told["anna"]) != 0 {
			t.Errorf("told %v", told)
		}
	})
}

func TestNoLimit(t *testing.T) {
	l := ingress.New(ingress.Options{Clock: time.Now})
	if err := l.Admit(t.Context(), callers(t, "anna")[0]); err != nil {
		t.Fatal(err)
	}
	l.Close()
}
