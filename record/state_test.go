package record_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

var update = flag.Bool("update", false, "rewrite generated documents")

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func callIn(s record.State) record.Call {
	owner := record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "i", Subject: "anna"}, Agent: "bot"}
	c := record.Call{Owner: owner, ID: "call_1", Run: "run_1", Lineage: "lin_1", Turn: 1, State: s, Version: 3, Attempts: 3,
		Binding: canon.Of("b"), Expires: at.Add(time.Hour)}
	if s == record.None {
		c.Version = 0
	}
	return c
}

func question(c record.Call, s record.ApprovalState) *record.Approval {
	return &record.Approval{Owner: c.Owner, ID: "apr_1", Call: c.ID, Binding: c.Binding, State: s, Version: 1, Expires: at.Add(time.Hour),
		Rule: record.ApprovalRule{Parts: []record.ApprovalPart{{Quorum: 1, People: []record.Principal{{Issuer: "i", Subject: "lena"}}}}}}
}

// try makes the change that brings a call from one state to another by a cause,
// with the constructor that does so.
func try(from, to record.State, by record.Cause) (record.Change, error) {
	c := callIn(from)
	s := record.Step{At: at, Who: record.Who{System: "test"}}
	var open *record.Approval
	if from == record.ApprovalPending {
		open = question(c, record.Approved)
	}
	switch to {
	case record.Proposed:
		return record.HeldBack(c, s)
	case record.ApprovalPending:
		return record.Hold(c, s, *question(c, record.Pending), nil)
	case record.DispatchAuthorized:
		return record.Authorize(c, s)
	case record.Executing:
		return record.Reserve(c, s, at.Add(time.Minute), open, nil)
	case record.Denied:
		if by == record.ByPerson {
			q := question(c, record.Pending)
			c.Approval = q.ID
			return record.Answer(*q, c, record.Reply{Person: record.Principal{Issuer: "i", Subject: "lena"}, Word: record.No, Binding: q.Binding, At: at}, record.Decision{}, nil)
		}
		return record.Refuse(c, s, open)
	case record.Succeeded, record.Failed, record.Unknown:
		return record.Settle(c, to, record.Outcome{}, s, by)
	default:
		return record.End(c, to, by, record.CodeCanceled, s, open)
	}
}

// immediate are the moves a constructor makes over several rows of the table in
// one change: an immediate answer on a new call, a dispatch of a held one.
func immediate(from, to record.State) []record.State {
	switch {
	case from == record.None && to == record.Executing:
		return []record.State{record.None, record.Proposed, record.DispatchAuthorized, record.Executing}
	case from == record.None:
		return []record.State{record.None, record.Proposed, to}
	case (from == record.Proposed || from == record.ApprovalPending) && to == record.Executing:
		return []record.State{from, record.DispatchAuthorized, record.Executing}
	default:
		return []record.State{from, to}
	}
}

func allowed(from, to record.State, by record.Cause) bool {
	path := immediate(from, to)
	if from == record.None && to == record.Proposed {
		path = path[:2]
	}
	for i := 1; i < len(path); i++ {
		if !record.May(path[i-1], path[i], by) {
			return false
		}
	}
	return true
}

// TestEveryStateWithEveryTarget tries every pair with every cause: the
// constructor makes exactly what the table allows.
func TestEveryStateWithEveryTarget(t *testing.T) {
	made := 0
	for _, from := range record.States() {
		for _, to := range record.States() {
			if to == record.None {
				continue
			}
			for _, by := range record.Causes() {
				change, err := try(from, to, by)
				if !causeOf(to, by) {
					continue // the constructor for this target fixes its cause
				}
				want := allowed(from, to, by)
				if from == record.ApprovalPending && to == record.ApprovalPending {
					want = true // a new question; the state is unchanged (rule D3)
				}
				if (err == nil) != want {
					t.Errorf("%q -> %q by %s: error %v, the table says %t", from, to, by, err, want)
					continue
				}
				if err != nil {
					continue
				}
				made++
				f := change.Facts()
				if f.Call.From != from || f.Call.After.State != to || f.Call.After.Version != f.Call.FromVersion+1 || len(f.Events) == 0 {
					t.Errorf("%q -> %q: guard %q@%d, after %q@%d, %d events", from, to, f.Call.From, f.Call.FromVersion, f.Call.After.State, f.Call.After.Version, len(f.Events))
				}
			}
		}
	}
	if made < 30 {
		t.Fatalf("only %d moves were made: the test tries nothing", made)
	}
}

// causeOf reports whether the constructor used for a target takes that cause.
func causeOf(to record.State, by record.Cause) bool {
	switch to {
	case record.Proposed, record.ApprovalPending, record.DispatchAuthorized, record.Executing:
		return by == record.ByBoundary
	case record.Denied:
		return by == record.ByBoundary || by == record.ByPerson
	default:
		return true
	}
}

func TestTerminalStates(t *testing.T) {
	for _, s := range record.States() {
		want := slices.Contains([]record.State{record.Succeeded, record.Failed, record.Denied, record.Expired, record.Canceled, record.Revoked}, s)
		if s.Terminal() != want {
			t.Errorf("%q terminal: %t", s, s.Terminal())
		}
		if s.Terminal() && (s.Open() || s.Waiting()) {
			t.Errorf("%q is terminal and open", s)
		}
	}
}

func TestApprovalTable(t *testing.T) {
	want := map[record.ApprovalState][]record.ApprovalState{
		record.Pending:  {record.Approved, record.Rejected, record.Lapsed, record.Void},
		record.Approved: {record.Consumed, record.Lapsed, record.Void},
	}
	for _, from := range record.ApprovalStates() {
		for _, to := range record.ApprovalStates() {
			if got := record.MayApproval(from, to); got != slices.Contains(want[from], to) {
				t.Errorf("%s -> %s: %t", from, to, got)
			}
		}
	}
}

// TestReserveRestsOnItsApprovalOnly: an approval is consumed by its call and its
// binding only (promise P3).
func TestReserveRestsOnItsApprovalOnly(t *testing.T) {
	c := callIn(record.ApprovalPending)
	s := record.Step{At: at}
	for name, edit := range map[string]func(*record.Approval){
		"another call":    func(a *record.Approval) { a.Call = "call_2" },
		"another binding": func(a *record.Approval) { a.Binding = canon.Of("other") },
		"still pending":   func(a *record.Approval) { a.State = record.Pending },
		"consumed":        func(a *record.Approval) { a.State = record.Consumed },
		"void":            func(a *record.Approval) { a.State = record.Void },
		"expired":         func(a *record.Approval) { a.State = record.Lapsed },
		"rejected":        func(a *record.Approval) { a.State = record.Rejected },
	} {
		a := question(c, record.Approved)
		edit(a)
		if _, err := record.Reserve(c, s, at, a, nil); err == nil {
			t.Errorf("%s: reserved", name)
		}
	}
	if _, err := record.Reserve(c, s, at, nil, nil); err == nil {
		t.Error("a held call was reserved without its approval being settled")
	}
	change, err := record.Reserve(c, s, at, question(c, record.Approved), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := change.Facts().Approvals; len(m) != 1 || m[0].After.State != record.Consumed {
		t.Fatalf("the approval's own reservation: %+v", m)
	}
	// A later attempt of an unknown call rests on what its first consumed (rule D2).
	u := callIn(record.Unknown)
	if _, err := record.Reserve(u, s, at, question(u, record.Consumed), nil); err != nil {
		t.Errorf("a retry: %v", err)
	}
}

func TestBindingCoversEverything(t *testing.T) {
	base := callIn(record.Proposed)
	base.Tool = record.ToolRef{Name: "refund", Server: "desk", Version: canon.Of("v"), Pin: canon.Of("p")}
	base.Targets = []record.Target{{Argument: "order", Value: []byte(`"ord_1"`)}}
	rule := record.ApprovalRule{Parts: []record.ApprovalPart{{From: "registry", Quorum: 1}}, Expires: time.Hour}
	of := func(edit func(*record.Call, *record.ApprovalRule, *time.Time, *string)) canon.Digest {
		c, r, expires, by := base, rule, at, "sha256:a"
		r.Parts = slices.Clone(rule.Parts)
		c.Targets = slices.Clone(base.Targets)
		edit(&c, &r, &expires, &by)
		return record.BindingOf(c, &r, expires, by)
	}
	seen := map[canon.Digest]string{}
	for name, edit := range map[string]func(*record.Call, *record.ApprovalRule, *time.Time, *string){
		"itself":    func(*record.Call, *record.ApprovalRule, *time.Time, *string) {},
		"tenant":    func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Tenant = "x" },
		"issuer":    func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Principal.Issuer = "x" },
		"subject":   func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Principal.Subject = "x" },
		"agent":     func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Agent = "x" },
		"run":       func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Run = "x" },
		"turn":      func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Turn = 9 },
		"call":      func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.ID = "x" },
		"tool":      func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Tool.Name = "x" },
		"server":    func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Tool.Server = "x" },
		"version":   func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Tool.Version = canon.Of("x") },
		"pin":       func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Tool.Pin = canon.Of("x") },
		"arguments": func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Digest = canon.Of("x") },
		"target value": func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) {
			c.Targets[0].Value = []byte(`"x"`)
		},
		"purpose":    func(c *record.Call, _ *record.ApprovalRule, _ *time.Time, _ *string) { c.Purpose = "x" },
		"quorum":     func(_ *record.Call, r *record.ApprovalRule, _ *time.Time, _ *string) { r.Parts[0].Quorum = 2 },
		"preview":    func(_ *record.Call, r *record.ApprovalRule, _ *time.Time, _ *string) { r.Preview = canon.Of("x") },
		"self":       func(_ *record.Call, r *record.ApprovalRule, _ *time.Time, _ *string) { r.Self = true },
		"expiry":     func(_ *record.Call, _ *record.ApprovalRule, e *time.Time, _ *string) { *e = e.Add(time.Microsecond) },
		"decided by": func(_ *record.Call, _ *record.ApprovalRule, _ *time.Time, by *string) { *by = "sha256:b" },
	} {
		d := of(edit)
		if other, twice := seen[d]; twice {
			t.Errorf("%s and %s have one binding", name, other)
		}
		seen[d] = name
	}
}

func TestRuleMet(t *testing.T) {
	leads, finance := record.Group{Issuer: "i", Name: "leads"}, record.Group{Issuer: "i", Name: "finance"}
	anna := record.Principal{Issuer: "i", Subject: "anna"}
	b := canon.Of("b")
	yes := func(name string, groups ...record.Group) record.Reply {
		return record.Reply{Person: record.Principal{Issuer: "i", Subject: name}, Groups: groups, Word: record.Yes, Binding: b}
	}
	two := record.ApprovalRule{Parts: []record.ApprovalPart{{Groups: []record.Group{leads}, Quorum: 2}}}
	both := record.ApprovalRule{Parts: []record.ApprovalPart{{Groups: []record.Group{leads}, Quorum: 1}, {Groups: []record.Group{finance}, Quorum: 1}}}
	stale := yes("max", leads)
	stale.Binding = canon.Of("other")
	for name, tc := range map[string]struct {
		rule    record.ApprovalRule
		answers []record.Reply
		want    bool
	}{
		"one of two":                  {two, []record.Reply{yes("lena", leads)}, false},
		"two of two":                  {two, []record.Reply{yes("lena", leads), yes("max", leads)}, true},
		"one person twice":            {two, []record.Reply{yes("lena", leads), yes("lena", leads)}, false},
		"a stranger":                  {two, []record.Reply{yes("lena", leads), yes("eve")}, false},
		"another binding":             {two, []record.Reply{yes("lena", leads), stale}, false},
		"the principal itself":        {two, []record.Reply{yes("lena", leads), yes("anna", leads)}, false},
		"one part of two":             {both, []record.Reply{yes("lena", leads)}, false},
		"each part":                   {both, []record.Reply{yes("lena", leads), yes("max", finance)}, true},
		"one person for both parts":   {both, []record.Reply{yes("lena", leads, finance)}, true},
		"no parts":                    {record.ApprovalRule{}, []record.Reply{yes("lena", leads)}, false},
		"equal group, another issuer": {two, []record.Reply{yes("lena", leads), yes("max", record.Group{Issuer: "other", Name: "leads"})}, false},
	} {
		if got := tc.rule.Met(tc.answers, b, record.Owner{Principal: anna}, nil); got != tc.want {
			t.Errorf("%s: met %t", name, got)
		}
	}
}

// TestDiagram keeps docs/states.md equal to the tables.
func TestDiagram(t *testing.T) {
	const path = "../docs/states.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, diagram := range map[string]string{"call": record.Diagram(), "approval": record.ApprovalDiagram()} {
		begin, end := "<!-- "+name+": generated -->\n", "<!-- end -->"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the %s diagram", path, name)
		}
		want = head + begin + "```mermaid\n" + diagram + "```\n" + end + tail
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the tables say; run go test ./record -update", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSurfaces(t *testing.T) {
	exits := map[int]bool{}
	for _, k := range record.Kinds() {
		s := record.SurfaceOf(k)
		if s.HTTP < 400 || s.RPC >= 0 || s.Exit < 2 {
			t.Errorf("%s: %+v", k, s)
		}
		exits[s.Exit] = true
	}
	if record.SurfaceOf("unheard of") != record.SurfaceOf(record.Internal) {
		t.Error("an unknown kind is not internal")
	}
	if len(exits) < 8 {
		t.Errorf("the exit codes tell only %d kinds apart", len(exits))
	}
}

func TestErrorsKeepTheirCauseInside(t *testing.T) {
	err := record.Because(record.Unavailable, os.ErrDeadlineExceeded, "the store does not answer")
	if record.KindOf(err) != record.Unavailable || record.PublicMessage(err) != "the store does not answer" {
		t.Fatalf("%v", err)
	}
	if strings.Contains(record.PublicMessage(os.ErrPermission), "permission") {
		t.Fatal("an unclassified error's text is public")
	}
}
