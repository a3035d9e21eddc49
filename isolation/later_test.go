package isolation_test

import (
	"net/http"
)

// queued is a call that waits in the queue for its owner.
func queued(w *world) *object {
	w.t.Helper()
	return w.want(w.propose("later"), "dispatch_authorized")
}

// dead is a queued call that its owner came back for, and that came to nothing.
func dead(w *world) *object {
	w.t.Helper()
	o := w.want(w.propose("later_break"), "dispatch_authorized")
	w.ok(w.callers["owner"], request{method: http.MethodPost, path: "/v1/calls/" + o.call + "/dispatch"}, &answered{})
	return w.want(o, "unknown")
}

// laterRows: what runs later belongs to its agent. Another agent of the principal, and
// another principal of the tenant, cannot list, read, complete or cancel it.
func laterRows() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	two, poor := who{"owner", "owner with a vouching key"}, who{"owner without scopes"}
	return []row{
		{name: "list-calls that are dead", door: listing, object: dead, ask: to(get, "/v1/calls?dead=true&limit=500"), may: seers, own: elses, done: only(seers, theCall), unlike: true},
		{name: "show-call that is queued", door: viewing, object: queued, ask: to(get, "/v1/calls/{call}"), may: seers, done: theCall},
		{name: "dispatch of what is queued", door: proposing, object: queued, ask: to(post, "/v1/calls/{call}/dispatch"), may: two, lacks: poor, decides: true, done: ran},
		{name: "cancel of what is queued", door: proposing, object: queued, ask: to(post, "/v1/calls/{call}/cancel"), may: mine, done: became("canceled")},
	}
}

func laterCommands() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	return []row{
		{name: "calls dead", door: listing, object: dead, ask: of("calls", "dead", "--limit", "500"), may: seers, own: elses, done: only(seers, theCall), unlike: true, columns: asReader},
	}
}
