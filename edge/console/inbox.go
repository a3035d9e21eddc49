package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// pageRows is how long one list is.
const pageRows = 50

// filter is what the inbox is asked for. Its zero value is what waits.
type filter struct {
	State string // waiting, approved, settled
	Tool  string
	For   string // subject of the principal
	Agent string
	After record.ApprovalID
}

// views are the states that each view of the inbox holds.
var views = map[string][]record.ApprovalState{
	"waiting":  {record.Pending},
	"approved": {record.Approved},
	"settled":  {record.Rejected, record.Consumed, record.Lapsed, record.Void},
}

func filterOf(q url.Values) filter {
	f := filter{State: q.Get("state"), Tool: q.Get("tool"), For: q.Get("for"), Agent: q.Get("agent"), After: record.ApprovalID(q.Get("after"))}
	if views[f.State] == nil {
		f.State = "waiting"
	}
	if !record.ValidID("apr", string(f.After)) {
		f.After = ""
	}
	return f
}

// Narrow reports whether it asks for less than a whole view.
func (f filter) Narrow() bool { return f.Tool != "" || f.For != "" || f.Agent != "" }

// query is the filter as an address, for another page of the same list.
func (f filter) query(after record.ApprovalID) string {
	q := url.Values{"state": {f.State}}
	for name, value := range map[string]string{"tool": f.Tool, "for": f.For, "agent": f.Agent, "after": string(after)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// questions lists what a person may answer, newest first. next is where another
// page begins; it may be there although this one is short.
func (c *Console) questions(ctx context.Context, v viewer, f filter, limit int) (found []dispatch.Loaded, next record.ApprovalID, err error) {
	return c.asked(ctx, v, dispatch.AskedQuery{States: views[f.State], Tool: f.Tool, For: f.For, Agent: f.Agent, After: f.After, Limit: limit})
}

// asked asks the store for a person's questions, and believes it of none: two locks.
func (c *Console) asked(ctx context.Context, v viewer, q dispatch.AskedQuery) ([]dispatch.Loaded, record.ApprovalID, error) {
	q.Tenant, q.Person, q.Groups = v.person.Tenant(), v.person.Principal(), v.person.Groups()
	page, err := c.o.Reader.Asked(ctx, q)
	if err != nil {
		return nil, "", err
	}
	return slices.DeleteFunc(page.Found, func(l dispatch.Loaded) bool { return !v.may(l) }), page.Next, nil
}

// row is a question in the list.
type row struct {
	ID      record.ApprovalID
	Effect  folded
	For     string
	Agent   string
	Tool    string
	Run     record.RunID
	Why     string
	State   record.ApprovalState
	Call    record.State
	Asked   time.Time
	Left    string
	Expires time.Time
	Soon    bool   // little time is left
	Votes   string // where more than one person must say yes
	Mine    record.Word
}

func (c *Console) rowOf(v viewer, l dispatch.Loaded, now time.Time) row {
	a := l.Approval
	first, _, _ := strings.Cut(cmp.Or(l.Call.EffectText, l.Call.Tool.Name), "\n")
	r := row{ID: a.ID, Effect: foldAs(first, 200, 0, sentence), For: l.Call.Principal.Subject, Agent: string(l.Call.Agent), Tool: l.Call.Tool.Name, Run: l.Call.Run,
		Why: asked(a.Code), State: a.State, Call: l.Call.State, Asked: a.Asked, Left: left(a.Expires.Sub(now)), Expires: a.Expires, Soon: a.Expires.Sub(now) < 15*time.Minute}
	need, have := 0, 0
	for _, p := range partsOf(*a, c.people()) {
		need, have = need+p.Quorum, have+min(p.Yes, p.Quorum)
	}
	if need > 1 {
		r.Votes = fmt.Sprintf("%d of %d said yes", have, need)
	}
	if own := answerOf(*a, v); own != nil {
		r.Mine = own.Word
	}
	return r
}

type inboxView struct {
	Filter filter
	Rows   []row
	Next   string
	Count  string
}

func (c *Console) inbox(w http.ResponseWriter, r *http.Request, v viewer) error {
	f := filterOf(r.URL.Query())
	found, next, err := c.questions(r.Context(), v, f, pageRows)
	if err != nil {
		return err
	}
	view := inboxView{Filter: f, Count: fmt.Sprint(len(found))}
	now := c.o.Clock()
	for _, l := range found {
		view.Rows = append(view.Rows, c.rowOf(v, l, now))
	}
	if next != "" {
		view.Count += "+"
		view.Next = home + "?" + f.query(next)
	}
	title := "Questions"
	if f.State == "waiting" {
		title = "(" + view.Count + ") Questions"
	}
	return c.showTo(w, r, http.StatusOK, "inbox", page{Title: title, Again: 60, Body: view,
		Live: url.Values{"inbox": {f.query(f.After)}, "seen": {versionOf(found)}}.Encode()}, v)
}

// versionOf differs when a list does.
func versionOf(list []dispatch.Loaded) string {
	h := sha256.New()
	for _, l := range list {
		fmt.Fprintln(h, version(l))
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// version differs when a question or its call moved.
func version(l dispatch.Loaded) string { return question.Version(l) }
