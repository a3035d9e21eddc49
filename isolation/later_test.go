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

// aSchedule is none. This server has no live source, so that nobody can make one; that
// they belong to their agent is shown in dispatch (TestPromise_P7_SchedulesBelongToTheirAgent).
const aSchedule = "sch_06h2rmw203y1p5r6g1wt3td878"

// laterRows: what runs later belongs to its agent. Another agent of the principal, and
// another principal of the tenant, cannot list, read, complete or cancel it.
func laterRows() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	two, poor := who{"owner", "owner with a vouching key"}, who{"owner without scopes"}
	return []row{
		{name: "list-calls that are dead", door: listing, object: dead, ask: to(get, "/v1/calls?dead=true&limit=500"), may: seers, own: elses, done: only(seers, theCall), unlike: true},
		{name: "list-calls that are queued", door: listing, object: queued, ask: to(get, "/v1/calls?queued=true&limit=500"), may: seers, own: elses, done: only(seers, theCall), unlike: true},
		{name: "show-call that is queued", door: viewing, object: queued, ask: to(get, "/v1/calls/{call}"), may: seers, done: theCall},
		{name: "dispatch of what is queued", door: proposing, object: queued, ask: to(post, "/v1/calls/{call}/dispatch"), may: two, lacks: poor, decides: true, done: ran},
		{name: "cancel of what is queued", door: proposing, object: queued, ask: to(post, "/v1/calls/{call}/cancel"), may: mine, done: became("canceled")},
		{name: "create-schedule", door: proposing, object: asked, ask: to(post, "/v1/schedules", `{"tool":"act","cron":"0 9 * * *","arguments":{"id":"n"}}`),
			lacks: proposers, unlike: true}, // here no entry allows schedules; so that it is refused
		{name: "list-schedules", door: listing, object: asked, ask: to(get, "/v1/schedules?over=true"), own: the(proposers, readers, strangers), unlike: true},
		{name: "show-schedule", door: viewing, object: asked, ask: to(get, "/v1/schedules/"+aSchedule)},
		{name: "pause-schedule", door: proposing, object: asked, ask: to(post, "/v1/schedules/"+aSchedule+"/pause")},
		{name: "resume-schedule", door: proposing, object: asked, ask: to(post, "/v1/schedules/"+aSchedule+"/resume")},
		{name: "delete-schedule", door: proposing, object: asked, ask: to(http.MethodDelete, "/v1/schedules/"+aSchedule)},
	}
}

func laterCommands() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	return []row{
		{name: "calls queued", door: listing, object: queued, ask: of("calls", "queued", "--limit", "500"), may: seers, own: elses, done: only(seers, theCall), unlike: true, columns: asReader},
		{name: "calls dead", door: listing, object: dead, ask: of("calls", "dead", "--limit", "500"), may: seers, own: elses, done: only(seers, theCall), unlike: true, columns: asReader},
		{name: "schedules add", door: proposing, object: asked, ask: of("schedules", "add", "act", "--cron", "0 9 * * *", "--arguments", `{"id":"n"}`), lacks: proposers, unlike: true, columns: asProposer},
		{name: "schedules list", door: listing, object: asked, ask: of("schedules", "list"), own: the(proposers, readers, strangers), unlike: true, columns: asReader},
		{name: "schedules show", door: viewing, object: asked, ask: of("schedules", "show", aSchedule), columns: asReader},
		{name: "schedules pause", door: proposing, object: asked, ask: of("schedules", "pause", aSchedule), columns: asProposer},
		{name: "schedules resume", door: proposing, object: asked, ask: of("schedules", "resume", aSchedule), columns: asProposer},
		{name: "schedules delete", door: proposing, object: asked, ask: of("schedules", "delete", aSchedule), columns: asProposer},
	}
}
