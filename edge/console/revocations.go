package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// revokedRow is a revocation.
type revokedRow struct {
	ID         record.RevocationID
	What       folded
	Reason     folded
	By         string
	Everywhere bool
	Live       bool
	At         time.Time
	Until      time.Time // zero: until it is undone
	Undone     time.Time
	UndoneBy   string
	Why        folded // it was undone
	Caught     record.Caught
	Undo       bool // the viewer may
}

func (c *Console) revokedRow(r record.Revocation, v viewer) revokedRow {
	row := revokedRow{ID: r.ID, What: fold(r.What(), 200, len(r.What())), Reason: fold(r.Reason, 200, len(r.Reason)), By: r.Who.Workload, Everywhere: r.Tenant == "",
		Live: r.Live(c.o.Clock()), At: r.At, Until: r.Expires, Undone: r.Undone, Why: fold(r.Why, 200, len(r.Why)), Caught: r.Caught}
	if r.UndoneBy != nil {
		row.UndoneBy = r.UndoneBy.Workload
	}
	row.Undo = r.Undone.IsZero() && v.person.Operates() && (!row.Everywhere || v.person.Operator().Everywhere())
	return row
}

// revocationsView lists what is revoked, and offers to revoke to whoever may.
type revocationsView struct {
	Rows       []revokedRow
	Ended      bool // what counts no more is listed, too
	Next       string
	Revoke     bool
	Everywhere bool   // this person may revoke in every tenant
	Target     string // filled in by the page that led here
}

func (c *Console) revocations(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.Reads() {
		return absent()
	}
	asked := r.URL.Query()
	view := revocationsView{Ended: asked.Get("ended") != "", Revoke: v.person.Operates(), Everywhere: v.person.Operator().Everywhere(), Target: asked.Get("target")}
	q := dispatch.RevocationQuery{Tenant: v.person.Tenant(), Ended: view.Ended, Limit: pageRows}
	if before := asked.Get("before"); record.ValidID("rev", before) {
		q.Before = record.RevocationID(before)
	}
	list, next, err := dispatch.ListRevocations(r.Context(), c.o.Reader, q, c.o.Clock())
	if err != nil {
		return err
	}
	for _, revoked := range list {
		if revoked.Tenant == "" || revoked.Tenant == v.person.Tenant() {
			view.Rows = append(view.Rows, c.revokedRow(revoked, v))
		}
	}
	if next != "" {
		of := url.Values{"before": {string(next)}}
		if view.Ended {
			of.Set("ended", "yes")
		}
		view.Next = home + "/revocations?" + of.Encode()
	}
	return c.showTo(w, r, http.StatusOK, "revocations", page{Title: "Revocations", Body: view}, v)
}

// revocationView is one revocation, with what ran when it was made.
type revocationView struct {
	revokedRow
	Calls []dispatch.CaughtCall
}

func (c *Console) revocation(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.Reads() {
		return absent()
	}
	tenant := v.person.Tenant()
	revoked, err := c.o.Boundary.Revocation(r.Context(), tenant, record.RevocationID(r.PathValue("id")))
	if err != nil {
		return hide(err)
	}
	view := revocationView{revokedRow: c.revokedRow(revoked, v)}
	if view.Calls, err = c.o.Boundary.Caught(r.Context(), tenant, revoked); err != nil {
		return err
	}
	return c.showTo(w, r, http.StatusOK, "revocation", page{Title: "A revocation", Body: view}, v)
}

// revoke withdraws the authority that the form names, for a person who operates.
func (c *Console) revoke(w http.ResponseWriter, r *http.Request, v viewer) error {
	if !v.person.Operates() {
		return absent()
	}
	field := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	if field("sure") == "" {
		return record.Errorf(record.Invalid, "tick the box to revoke; nothing was done")
	}
	order, err := dispatch.ParseTarget(field("target"))
	if err != nil {
		return err
	}
	if err := order.Lasts(field("for")); err != nil {
		return err
	}
	order.Reason, order.Everywhere = field("reason"), field("everywhere") != ""
	revoked, err := c.o.Boundary.Revoke(r.Context(), v.person.Operator(), order)
	if err != nil {
		return hide(err)
	}
	http.Redirect(w, r, home+"/revocations/"+string(revoked.ID), http.StatusSeeOther)
	return nil
}

// undo gives back what a revocation took, for a person who operates.
func (c *Console) undo(w http.ResponseWriter, r *http.Request, v viewer) error {
	id := record.RevocationID(r.PathValue("id"))
	if !v.person.Operates() {
		return absent()
	}
	if _, err := c.o.Boundary.UndoRevocation(r.Context(), v.person.Operator(), "", id, strings.TrimSpace(r.PostForm.Get("reason"))); err != nil {
		return hide(err)
	}
	http.Redirect(w, r, home+"/revocations/"+string(id), http.StatusSeeOther)
	return nil
}
