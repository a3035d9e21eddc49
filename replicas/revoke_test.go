package replicas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/placet-dev/placet/store/postgres/pgtest"
)

// reserved says when calls were reserved, by their keys, and when a person's authority
// was withdrawn: both by numbers of the log.
type reserved struct {
	at        map[string]int64
	withdrawn [][2]int64  // from the revocation to its undoing
	decided   []time.Time // when the server made the change that revokes
}

func (w *world) reserved() reserved {
	w.t.Helper()
	r := reserved{at: map[string]int64{}}
	rows := pgtest.Shared(w.t).Do(w.t, w.database, `SELECT seq, kind, coalesce(body::json ->> 'idempotency_key', ''), at FROM placet.events
		WHERE kind IN ('executing', 'revocation', 'revocation_undone') ORDER BY seq`)
	for row := range strings.Lines(rows) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		seq, err := strconv.ParseInt(cells[0], 10, 64)
		if err != nil {
			w.t.Fatal(err)
		}
		switch cells[1] {
		case "executing":
			if r.at[cells[2]] != 0 {
				w.t.Errorf("%s was reserved twice", cells[2])
			}
			r.at[cells[2]] = seq
		case "revocation":
			at, err := strconv.ParseInt(cells[3], 10, 64)
			if err != nil {
				w.t.Fatal(err)
			}
			r.withdrawn, r.decided = append(r.withdrawn, [2]int64{seq, 1 << 62}), append(r.decided, time.UnixMicro(at))
		default:
			r.withdrawn[len(r.withdrawn)-1][1] = seq
		}
	}
	return r
}

func (r reserved) whileWithdrawn(key string) bool {
	for _, span := range r.withdrawn {
		if at := r.at[key]; at > span[0] && at < span[1] {
			return true
		}
	}
	return false
}

// Rule C3: when placet revoke returns, no replica reserves anything more for whom it
// names, however busy they are; what was sent before may still be on its way to the
// tool. Others are served all the time, and whose authority is given back is again.
func TestRule_C3_RevokedOnThreeReplicasUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds, callers, ran = 3, 6, 60
	w := newWorld(t)
	w.write("tools.yaml", strings.Replace(w.read("tools.yaml"), "timeout: 1s", "timeout: 20s", 1))
	w.write("placet.yaml", w.read("placet.yaml")+`ingress: {per_second: 100000, burst: 100000}
runs: {calls_per_run: 1000000, proposals_open: 100000, proposals_open_turn: 100000, proposals_open_principal: 100000}
`)
	for range 3 {
		w.start()
	}
	var stop atomic.Bool
	var denied atomic.Int64
	var load sync.WaitGroup
	defer load.Wait()
	defer stop.Store(true)
	for _, who := range []string{"anna", "bert"} {
		token := w.token(who)
		for n := range callers {
			load.Go(func() {
				for i := 0; !stop.Load(); i++ {
					r, err := w.call(w.balancer.URL, token, "act", fmt.Sprintf(`{"id":"%s %d %d"}`, who, n, i), "")
					switch {
					case err == nil && strings.Contains(r.body, "done act"):
					case err == nil && who == "anna" && strings.Contains(r.body, "revoked"):
						denied.Add(1)
					case err == nil && who == "anna" && strings.Contains(r.body, "outcome_unknown"): // it was on its way when it was stopped
					default:
						t.Errorf("%s is answered %+v %v", who, r, err)
						return
					}
				}
			})
		}
	}
	deeds := func(who string) (n int, last time.Time) {
		for _, d := range w.desk.account() {
			if strings.Contains(d.line, who) {
				n, last = n+1, d.at
			}
		}
		return n, last
	}
	more := func(who string) func() bool {
		before, _ := deeds(who)
		return func() bool { n, _ := deeds(who); return t.Failed() || n >= before+ran }
	}
	operate := func(args ...string) (id string, returned time.Time) {
		t.Helper()
		cmd := w.command(append(args, "--reason", "under load", "--server", w.balancer.URL, "--json")...)
		cmd.Env = append(cmd.Env, "PLACET_TOKEN="+w.token("otto", "ops"))
		out, err := cmd.Output()
		returned = time.Now()
		var v struct{ ID string }
		if json.Unmarshal(out, &v) != nil || err != nil {
			t.Fatalf("placet %v: %v %s", args, err, out)
		}
		return v.ID, returned
	}
	for range rounds {
		until(t, "calls of Anna's run", more("anna"))
		before := denied.Load()
		id, returned := operate("revoke", "principal:anna@https://idp.test", "--wait", "0s")
		served := more("bert")
		until(t, "Anna is denied again and again", func() bool { return t.Failed() || denied.Load() >= before+ran })
		until(t, "Bert is served meanwhile", served)
		_, last := deeds("anna")
		decided := w.reserved().decided
		t.Logf("the last effect came %s after the command returned, and %s after the server decided to revoke",
			last.Sub(returned).Round(10*time.Microsecond), last.Sub(decided[len(decided)-1]).Round(10*time.Microsecond))
		operate("revoke", "--undo", id)
	}
	until(t, "Anna's run again", more("anna"))
	stop.Store(true)
	load.Wait()
	log := w.reserved()
	if len(log.withdrawn) != rounds {
		t.Fatalf("the log holds %d revocations", len(log.withdrawn))
	}
	others := 0
	for _, d := range w.desk.account() {
		switch {
		case log.at[d.key] == 0:
			t.Errorf("%s: no reservation has its key %q", d.line, d.key)
		case strings.Contains(d.line, "anna") && log.whileWithdrawn(d.key):
			t.Errorf("%s: reserved as event %d, while Anna's authority was withdrawn: %v", d.line, log.at[d.key], log.withdrawn)
		case log.whileWithdrawn(d.key):
			others++
		}
	}
	if others < rounds*ran/2 {
		t.Errorf("only %d calls of Bert's were reserved meanwhile", others)
	}
}
