package console

import (
	"bytes"
	"html/template"
	"net/http"

	"github.com/placet-dev/placet/record"
)

var page = template.Must(template.New("approval").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A question waits</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } }
</style>
</head>
<body>
<main>
<h1>A question waits for an answer</h1>
<p>An agent asks for a call that a person decides. Whoever is named as approver reads the
exact call and answers in a terminal, signed in for answering:</p>
<pre>placet approvals show {{.}}
placet approvals approve {{.}}
placet approvals reject {{.}} --note "why"</pre>
<p>This page shows nothing of the call and cannot answer. The call runs when its agent asks
again after a yes, once, and only as it was shown.</p>
</main>
</body>
</html>
`))

// Mount registers the pages.
func Mount(mux *http.ServeMux) { mux.HandleFunc("GET /console/approvals/{id}", approval) }

func approval(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	id := r.PathValue("id")
	if !record.ValidID("apr", id) { // a link of another shape is nobody's; whether one exists is not told
		http.Error(w, "no such page", http.StatusNotFound)
		return
	}
	var b bytes.Buffer
	if err := page.Execute(&b, id); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}
