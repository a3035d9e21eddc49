package console

import (
	"net/http"

	"github.com/placet-dev/placet/record"
)

// agents lists the agents that acted for whoever looks, with what counts against each.
// It is theirs alone: nobody sees another person's.
func (c *Console) agents(w http.ResponseWriter, r *http.Request, v viewer) error {
	standing, err := c.o.Boundary.Standing(r.Context(), v.person)
	if err != nil {
		return err
	}
	return c.showTo(w, r, http.StatusOK, "agents", page{Title: "Your agents", Body: standing}, v)
}

// startFresh ends what one agent did for this person, so that its next run is another
// lineage (rule B1). The form names the agent and was sent by their own page.
func (c *Console) startFresh(w http.ResponseWriter, r *http.Request, v viewer) error {
	if r.PostForm.Get("sure") == "" {
		return record.Errorf(record.Invalid, "tick the box to start fresh; nothing was done")
	}
	if err := c.o.Boundary.StartFresh(r.Context(), v.person, record.AgentID(r.PostForm.Get("agent"))); err != nil {
		return hide(err)
	}
	http.Redirect(w, r, home+"/agents", http.StatusSeeOther)
	return nil
}
