package console

import (
	"net/http"

	"github.com/placet-dev/placet/record"
)

// terminal is what a link to a question leads to where nobody can sign in: it
// shows nothing of the question, and says how to answer in a terminal.
func (c *Console) terminal(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !record.ValidID("apr", id) { // a link of another shape is nobody's; whether one exists is not told
		return absent()
	}
	return c.show(w, r, http.StatusOK, "terminal", page{Title: "A question waits", Body: id})
}
