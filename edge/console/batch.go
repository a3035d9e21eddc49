package console

import (
	"net/http"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// rejectRun says no to all questions of a run that a page listed, and ends it.
// There is no form that says yes to several.
func (c *Console) rejectRun(w http.ResponseWriter, r *http.Request, v viewer) error {
	run := record.RunID(r.PathValue("id"))
	if !record.ValidID("run", string(run)) {
		return absent()
	}
	var shown []dispatch.Shown
	for _, entry := range r.PostForm["question"] {
		id, binding, _ := strings.Cut(entry, " ")
		var seen canon.Digest
		if err := seen.UnmarshalText([]byte(binding)); err != nil || !record.ValidID("apr", id) {
			return record.Errorf(record.Invalid, "the form does not say what it showed; nothing was done. Open the page again")
		}
		shown = append(shown, dispatch.Shown{ID: record.ApprovalID(id), Binding: seen})
	}
	if _, err := c.o.Boundary.RejectRun(r.Context(), v.person, run, shown, strings.TrimSpace(r.PostForm.Get("note"))); err != nil {
		return hide(err)
	}
	http.Redirect(w, r, home+"/runs/"+string(run), http.StatusSeeOther)
	return nil
}

// batch is what the form that rejects all carries.
type batch struct {
	Form string
	Run  record.RunID
	All  []dispatch.Shown
}

func newBatch(form string, run record.RunID, all []dispatch.Shown) batch {
	return batch{form, run, all}
}
