package api

import (
	"context"
	"net/http"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

func (d *door) registerVersions() {
	add(d, d.operation("list-versions", http.MethodGet, "/v1/versions", "List what was activated", d.asReader, tag("operate"),
		describe("Needs the permission read or operate. Activations belong to the whole store, not to a tenant; see docs/versions.md.")), d.listVersions)
	add(d, d.operation("activate-version", http.MethodPost, "/v1/versions/activate", "Activate files that are sent, or an earlier version", d.asOperator, tag("operate"),
		describe("Needs the permission operate. With plan, it only says what that would change. On any error the version before stays.")), d.activateVersion)
	add(d, d.operation("compare-versions", http.MethodPost, "/v1/versions/compare", "Judge recorded calls by two versions", d.asOperator, tag("operate"),
		describe("Needs the permission operate. It looks at calls of the operator's tenant, runs none, and leaves an event that says it was asked.")), d.compareVersions)
	add(d, d.operation("list-observed", http.MethodGet, "/v1/observed", "What rules that only observe would have done", d.asReader, tag("operate"),
		describe("Needs the permission read or operate. Of the reader's tenant.")), d.listObserved)
}

// VersionView is an activation.
type VersionView struct {
	Generation int64     `json:"generation" doc:"Its number."`
	Version    string    `json:"version" doc:"The digest of what decided from then on."`
	Active     bool      `json:"active"`
	Files      string    `json:"files,omitempty" doc:"Where they came from: server, operator or store. Empty: a program before this one activated it."`
	Stored     bool      `json:"stored" doc:"Its files are in the store, so that it can be gone back to."`
	By         string    `json:"by"`
	At         time.Time `json:"at"`
	Plan       []string  `json:"plan" nullable:"false" doc:"What it changed, a line each."`
}

// StandingView is whether the server that answers decides by the active version.
type StandingView struct {
	Generation int64  `json:"generation" doc:"By which it decides."`
	Ready      bool   `json:"ready"`
	Why        string `json:"why,omitempty" doc:"Why it is not."`
}

type versionsInput struct {
	Before int64 `query:"before" minimum:"0" doc:"The next of an earlier page."`
	Limit  int   `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type versionsOutput struct {
	Body struct {
		Versions []VersionView `json:"versions" nullable:"false" doc:"Newest first."`
		Next     int64         `json:"next,omitempty"`
		Here     StandingView  `json:"here"`
	}
}

func (d *door) listVersions(ctx context.Context, in *versionsInput) (*versionsOutput, error) {
	if d.versions.Standing == nil {
		return nil, record.Errorf(record.Unsupported, "this server keeps no versions")
	}
	list, err := d.reader.Activations(ctx, in.Before, in.Limit)
	if err != nil {
		return nil, err
	}
	active, err := d.reader.Activations(ctx, 0, 1)
	if err != nil {
		return nil, err
	}
	out := &versionsOutput{}
	out.Body.Versions = []VersionView{}
	for _, a := range list {
		out.Body.Versions = append(out.Body.Versions, VersionView{Generation: a.To, Version: a.Digest, Active: len(active) > 0 && a.To == active[0].To,
			Files: string(a.Files), Stored: !a.Sum.IsZero(), By: actor(a.Who), At: a.At, Plan: append([]string{}, a.Plan...)})
	}
	if len(list) == in.Limit {
		out.Body.Next = list[len(list)-1].To
	}
	generation, why := d.versions.Standing()
	out.Body.Here = StandingView{Generation: generation, Ready: why == nil}
	if why != nil {
		out.Body.Here.Why = record.PublicMessage(why)
	}
	return out, nil
}

// actor is who activated something, as one word.
func actor(w record.Who) string {
	switch {
	case w.Principal != nil:
		return w.Principal.Subject
	case w.Workload != "":
		return w.Workload
	}
	return w.System
}

// VersionOrder names what to activate.
type VersionOrder struct {
	Files      map[string]string `json:"files,omitempty" doc:"Text by path, from the folder of the server's placet.yaml: all files that it reads."`
	Version    string            `json:"version,omitempty" maxLength:"80" doc:"Or the digest of an earlier version."`
	Generation int64             `json:"generation,omitempty" minimum:"0" doc:"Or the number of an earlier activation."`
}

type activateInput struct {
	Body struct {
		VersionOrder
		Plan    bool   `json:"plan,omitempty" doc:"Only say what it would change."`
		Planned string `json:"planned,omitempty" maxLength:"80" doc:"Activate only the version that a plan showed."`
		After   int64  `json:"after,omitempty" minimum:"0" doc:"And only while this generation is active."`
	}
}

// one says that exactly one thing is named.
func (o VersionOrder) one() error {
	n := 0
	for _, given := range []bool{o.Files != nil, o.Version != "", o.Generation > 0} {
		if given {
			n++
		}
	}
	if n != 1 {
		return invalid("body", "name one of files, version and generation")
	}
	return nil
}

func (d *door) activateVersion(ctx context.Context, in *activateInput) (*reloadOutput, error) {
	if d.reload == nil {
		return nil, record.Errorf(record.Unsupported, "this server's registry and policy are not read from files")
	}
	b := in.Body
	if err := b.one(); err != nil {
		return nil, err
	}
	r, err := d.reload(ctx, operator(ctx).Name(), ReloadOrder{Plan: b.Plan, Version: b.Planned, After: b.After, Of: &b.VersionOrder})
	if err != nil {
		return nil, err
	}
	if r.Plan == nil {
		r.Plan = []string{}
	}
	return &reloadOutput{Body: r}, nil
}

type compareInput struct {
	Body struct {
		From  VersionOrder `json:"from,omitempty" doc:"Nothing in it: what is active."`
		To    VersionOrder `json:"to"`
		Since time.Time    `json:"since,omitempty" doc:"Calls proposed since then; the last day where it is not given."`
		Limit int          `json:"limit,omitempty" minimum:"0" maximum:"10000" doc:"At most so many calls, the newest; 2,000 where it is not given."`
	}
}

// ComparedView is what two versions say about recorded calls.
type ComparedView struct {
	Calls   int                `json:"calls" doc:"That were looked at."`
	More    bool               `json:"more" doc:"There are older ones that were not."`
	Same    int                `json:"same"`
	Changed []OtherVerdictView `json:"changed" nullable:"false"`
	Unknown []UnjudgedView     `json:"unknown" nullable:"false" doc:"Calls that cannot be judged from what is recorded of them."`
}

// OtherVerdictView counts calls of one tool whose verdict is another.
type OtherVerdictView struct {
	Tool     string          `json:"tool"`
	From     record.Verdict  `json:"from"`
	To       record.Verdict  `json:"to"`
	Rule     string          `json:"rule,omitempty" doc:"That gives the second verdict."`
	Count    int             `json:"count"`
	Examples []record.CallID `json:"examples" nullable:"false"`
}

// UnjudgedView counts calls that something is missing of.
type UnjudgedView struct {
	Why      string          `json:"why"`
	Count    int             `json:"count"`
	Examples []record.CallID `json:"examples" nullable:"false"`
}

type comparedOutput struct{ Body ComparedView }

func (d *door) compareVersions(ctx context.Context, in *compareInput) (*comparedOutput, error) {
	if d.versions.Compare == nil {
		return nil, record.Errorf(record.Unsupported, "this server keeps no versions")
	}
	b := in.Body
	if err := b.To.one(); err != nil {
		return nil, err
	}
	if b.From.Files != nil || b.From.Version != "" || b.From.Generation > 0 {
		if err := b.From.one(); err != nil {
			return nil, err
		}
	}
	if b.Since.IsZero() {
		b.Since = d.now().Add(-24 * time.Hour)
	}
	if b.Limit == 0 {
		b.Limit = 2000
	}
	c, err := d.versions.Compare(ctx, operator(ctx), CompareOrder{From: b.From, To: b.To, Since: b.Since, Limit: b.Limit})
	if err != nil {
		return nil, err
	}
	v := ComparedView{Calls: c.Calls, More: c.More, Same: c.Same, Changed: []OtherVerdictView{}, Unknown: []UnjudgedView{}}
	for _, x := range c.Changed {
		v.Changed = append(v.Changed, OtherVerdictView(x))
	}
	for _, x := range c.Unknown {
		v.Unknown = append(v.Unknown, UnjudgedView(x))
	}
	return &comparedOutput{Body: v}, nil
}

type observedInput struct {
	Since time.Time `query:"since" doc:"Calls proposed since then; the last day where it is not given."`
	Limit int       `query:"limit" minimum:"1" maximum:"10000" default:"5000" doc:"At most so many calls, the newest."`
}

// ObservedView is what one rule that only observes would have done to calls of one tool.
type ObservedView struct {
	Rule     string          `json:"rule"`
	Tool     string          `json:"tool"`
	Denied   int             `json:"denied"`
	Asked    int             `json:"asked"`
	Examples []record.CallID `json:"examples" nullable:"false" doc:"The newest of them."`
}

type observedOutput struct {
	Body struct {
		Calls    int            `json:"calls" doc:"That were looked at."`
		More     bool           `json:"more" doc:"There are older ones since that time that were not."`
		Since    time.Time      `json:"since"`
		Observed []ObservedView `json:"observed" nullable:"false"`
	}
}

func (d *door) listObserved(ctx context.Context, in *observedInput) (*observedOutput, error) {
	since := in.Since
	if since.IsZero() {
		since = d.now().Add(-24 * time.Hour)
	}
	found, err := dispatch.Observed(ctx, d.reader, watcher(ctx).tenant(), since, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &observedOutput{}
	out.Body.Calls, out.Body.More, out.Body.Since, out.Body.Observed = found.Calls, found.More, found.Since, []ObservedView{}
	for _, o := range found.Rules {
		out.Body.Observed = append(out.Body.Observed, ObservedView(o))
	}
	return out, nil
}

// Versions is what this door asks of whoever keeps versions.
type Versions struct {
	// Standing is by which generation the server decides, and why it reserves nothing;
	// nil where it does. A nil Standing: there are no versions.
	Standing func() (int64, error)
	// Compare judges recorded calls of the operator's tenant by two versions.
	Compare func(context.Context, identity.Operator, CompareOrder) (dispatch.Comparison, error)
}

// CompareOrder names two versions and the calls to judge.
type CompareOrder struct {
	From, To VersionOrder // a From without anything: what is active
	Since    time.Time
	Limit    int
}
