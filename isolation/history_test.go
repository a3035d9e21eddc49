package isolation_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// spoken is a transcript that claims the owner's call, with a result nobody returned.
const spoken = `[{"role":"user","content":"{marker}"},{"role":"assistant","content":null,"tool_calls":[{"id":"{call}","type":"function","function":{"name":"act","arguments":"{\"id\":\"{marker}\"}"}}]}]`

// told is a transcript that the owner imported, beside a call that has run.
func told(w *world) *object {
	w.t.Helper()
	o := done(w)
	var v struct{ ID string }
	w.ok(w.callers["owner"], request{method: http.MethodPost, path: "/v1/transcripts", body: o.fill(spoken)}, &v)
	o.transcript = v.ID
	return o
}

// shared is that run, and the transcript, shared with bert: with the other principal.
func shared(w *world) *object {
	w.t.Helper()
	o := told(w)
	var v struct{ ID string }
	w.ok(w.callers["owner"], request{method: http.MethodPost, path: "/v1/shares",
		body: fmt.Sprintf(`{"transcript":%q,"issuer":"urn:placet:dev","subject":"bert","until":%q}`, o.transcript, nextHour())}, &v)
	o.share = v.ID
	return o
}

func nextHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

// kept is what an operator sees of the transcript, if there is one.
func kept(w *world, o *object) string {
	if o.transcript == "" {
		return ""
	}
	return w.send(w.callers["operator"], request{method: http.MethodGet, path: "/v1/transcripts/" + o.transcript}).body
}

var (
	theTranscript = tells(func(o *object) string { return o.transcript })
	theShare      = tells(func(o *object) string { return o.share })
	theMarker     = tells(func(o *object) string { return o.marker })
	berts         = who{"other principal", "other principal with a vouching key"}
)

// gone checks that it is not there for the owner.
func gone(path string) func(*world, string, *object, reply) error {
	return func(w *world, _ string, o *object, _ reply) error {
		if r := w.send(w.callers["owner"], request{method: http.MethodGet, path: o.fill(path)}); r.status != http.StatusNotFound {
			return fmt.Errorf("it is there still: %d %s", r.status, short(r.body))
		}
		return nil
	}
}

func historyRows() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	until := nextHour()
	// The owner reads its result in a repaired history, while it may call the tool.
	return []row{
		{name: "check-history", door: proposing, object: done, ask: to(post, "/v1/history/check", `[{"role":"tool","tool_call_id":"x","content":"y"}]`), own: proposers, done: nothingTold},
		{name: "check-history of a run", door: proposing, object: done, ask: to(post, "/v1/history/check?run={run}", spoken), may: mine, done: theCall},
		{name: "repair-history", door: proposing, object: asked, ask: to(post, "/v1/history/repair?to=openai-chat", `[{"role":"tool","tool_call_id":"x","content":"y"}]`), own: proposers},
		{name: "repair-history of a run", door: proposing, object: done, ask: to(post, "/v1/history/repair?to=openai-chat&run={run}", spoken), may: mine, done: receipt},
		{name: "resume-run", door: proposing, object: asked, ask: to(post, "/v1/runs/{run}/resume"), may: mine, done: theApproval},
		{name: "resume-run with a history", door: proposing, object: done, ask: to(post, "/v1/runs/{run}/resume", spoken), may: mine, done: receipt},
		{name: "replay-run", door: operating, object: asked, ask: to(post, "/v1/runs/{run}/replay"), may: who{"operator"}, done: became("canceled")},

		{name: "import-transcript", door: proposing, object: asked, ask: to(post, "/v1/transcripts", `[{"role":"tool","tool_call_id":"x","content":"y"}]`), own: proposers, unlike: true},
		{name: "list-transcripts", door: listing, object: told, also: kept, ask: to(get, "/v1/transcripts?limit=500"), may: seers, own: elses, done: only(seers, theTranscript), unlike: true},
		{name: "show-transcript", door: viewing, object: told, also: kept, ask: to(get, "/v1/transcripts/{transcript}"), may: seers, done: theMarker},
		{name: "redact-transcript", door: proposing, object: told, also: kept, ask: to(post, "/v1/transcripts/{transcript}/redact", `{"items":[0]}`), may: mine, done: theTranscript},
		{name: "compact-transcript", door: proposing, object: told, also: kept, lacks: mine, ask: to(post, "/v1/transcripts/{transcript}/compact", `{"first":0,"last":1}`)}, // a call is open in it
		{name: "delete-transcript", door: proposing, object: told, also: kept, ask: to(http.MethodDelete, "/v1/transcripts/{transcript}"), may: mine, done: gone("/v1/transcripts/{transcript}")},

		{name: "give-share of a run", door: proposing, object: asked, may: mine, done: theRun,
			ask: to(post, "/v1/shares", `{"run":"{run}","issuer":"urn:placet:dev","subject":"carla","until":"`+until+`"}`)},
		{name: "give-share", door: proposing, object: told, also: kept, may: mine, done: theTranscript,
			ask: to(post, "/v1/shares", `{"transcript":"{transcript}","issuer":"urn:placet:dev","subject":"carla","until":"`+until+`"}`)},
		{name: "list-shares", door: viewing, object: shared, also: kept, ask: to(get, "/v1/shares?limit=500"), may: the(mine, readers, berts),
			own: the(proposers, persons, strangers).but(the(mine, berts)...), done: only(the(mine, readers, berts), theShare), unlike: true},
		// The giver reads its own by other ways; whoever reads a tenant needs no share.
		{name: "show-shared", door: viewing, object: shared, also: kept, ask: to(get, "/v1/shares/{share}"), may: berts, done: theMarker},
		{name: "end-share", door: proposing, object: shared, also: kept, ask: to(http.MethodDelete, "/v1/shares/{share}"), may: mine, done: ended},
	}
}

// nothingTold: without a run the records say nothing.
func nothingTold(_ *world, _ string, _ *object, a reply) error {
	if strings.Contains(a.body, `"classes"`) {
		return fmt.Errorf("it was compared: %s", short(a.body))
	}
	return nil
}

// ended: the reader reads no longer.
func ended(w *world, _ string, o *object, _ reply) error {
	if r := w.send(w.callers["other principal"], request{method: http.MethodGet, path: "/v1/shares/" + o.share}); r.status != http.StatusNotFound {
		return fmt.Errorf("the reader reads on: %d", r.status)
	}
	return nil
}

// with runs a command that reads the transcript from a file.
func with(args ...string) func(*world, credentials, target) reply {
	return func(w *world, c credentials, t target) reply {
		if err := os.WriteFile(filepath.Join(w.dir, "talk.json"), []byte(t.fill(spoken)), 0o600); err != nil {
			w.t.Error(err)
		}
		return of(args...)(w, c, t)
	}
}

func historyCommands() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	share := []string{"--issuer", "urn:placet:dev", "--subject", "carla", "--for", "1h"}
	return []row{
		// The transcript has a call without a result: that is the answer no.
		{name: "history check", door: proposing, object: done, ask: with("history", "check", "talk.json", "--run", "{run}"), lacks: mine, columns: asProposer},
		{name: "history repair", door: proposing, object: done, ask: with("history", "repair", "talk.json", "--to", "openai-chat", "--run", "{run}"), may: mine, done: receipt, columns: asProposer},
		{name: "runs resume", door: proposing, object: asked, ask: of("runs", "resume", "{run}"), may: mine, done: theApproval, columns: asProposer},
		{name: "runs replay", door: operating, object: asked, ask: of("runs", "replay", "{run}"), may: who{"operator"}, done: became("canceled"), columns: asOperator},
		{name: "history import", door: proposing, object: asked, ask: with("history", "import", "talk.json", "--label", "talk"), own: proposers, unlike: true, columns: asProposer},
		{name: "history list", door: listing, object: told, also: kept, ask: of("history", "list", "--limit", "500"), may: seers, own: elses, done: only(seers, theTranscript), unlike: true, columns: asReader},
		{name: "history show", door: viewing, object: told, also: kept, ask: of("history", "show", "{transcript}"), may: seers, done: theMarker, columns: asReader},
		{name: "history redact", door: proposing, object: told, also: kept, ask: of("history", "redact", "{transcript}", "--items", "0"), may: mine, done: theTranscript, columns: asProposer},
		{name: "history compact", door: proposing, object: told, also: kept, ask: of("history", "compact", "{transcript}", "--first", "0", "--last", "1"), lacks: mine, columns: asProposer},
		{name: "history delete", door: proposing, object: told, also: kept, ask: of("history", "delete", "{transcript}"), may: mine, done: gone("/v1/transcripts/{transcript}"), columns: asProposer},
		{name: "history share", door: proposing, object: asked, ask: of(append([]string{"history", "share", "--run", "{run}"}, share...)...), may: mine, done: theRun, columns: asProposer},
		{name: "history shares", door: viewing, object: shared, also: kept, ask: of("history", "shares", "--limit", "500"), may: the(mine, readers, berts),
			own: the(proposers, persons, strangers).but(the(mine, berts)...), done: only(the(mine, readers, berts), theShare), unlike: true, columns: asReader},
		{name: "history view", door: viewing, object: shared, also: kept, ask: of("history", "view", "{share}"), may: berts, done: theMarker, columns: asReader},
		{name: "history unshare", door: proposing, object: shared, also: kept, ask: of("history", "unshare", "{share}"), may: mine, done: ended, columns: asProposer},
	}
}
