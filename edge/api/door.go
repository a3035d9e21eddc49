package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/edge/feed"
	"github.com/placet-dev/placet/edge/oauth"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// door is the handler. It holds no state but of who listens.
type door struct {
	boundary Boundary
	reader   Reader
	verifier Verifier
	ingress  Ingress
	oauth    *oauth.Resource

	reload    func(context.Context, string, ReloadOrder) (Reloaded, error)
	overrides func() []registry.Override
	versions  Versions
	evidence  func(record.Call, record.Approval) passkey.Evidence
	ready     func(context.Context) error
	reported  func(json.RawMessage, string) (json.RawMessage, error)
	sealed    audit.Log // nil: none
	logKey    string

	public string
	log    *slog.Logger
	now    func() time.Time
	limits canon.Limits
	body   time.Duration
	wait   time.Duration
	beat   time.Duration
	stream time.Duration

	histories HistoryLimits
	checked   func(*history.Transcript, []history.Finding, *history.Classification)
	holding   chan struct{} // a place for each transcript that is held

	feed    *feed.Feed
	streams streams

	mux *http.ServeMux
	api huma.API
}

// New returns the handler of /v1/…, /healthz and /readyz.
func New(o Options) http.Handler { return build(o) }

func build(o Options) *door {
	o = o.withDefaults()
	d := &door{
		boundary: o.Boundary, reader: o.Reader, verifier: o.Verifier, oauth: o.OAuth, public: strings.TrimRight(o.PublicURL, "/"),
		reload: o.Reload, overrides: o.Overrides, versions: o.Versions, evidence: o.Evidence, ready: o.Ready, reported: o.Reported, sealed: o.Sealed, logKey: o.LogKey,
		ingress: o.Ingress, log: o.Log, now: o.Clock, limits: o.Limits, body: o.Body, wait: o.Wait, beat: o.Beat, stream: o.Stream,
		mux: http.NewServeMux(),
	}
	d.histories = o.History.withDefaults()
	if d.checked = o.Checked; d.checked == nil {
		d.checked = func(*history.Transcript, []history.Finding, *history.Classification) {}
	}
	d.holding = make(chan struct{}, d.histories.Once)
	if o.Boundary != nil {
		d.feed = feed.New(o.Reader, o.Boundary.Moved, o.Log)
	}
	d.api = humago.New(d.mux, d.config(o.Version))
	d.api.UseMiddleware(fold)
	d.registerRuns()
	d.registerHistory()
	d.registerTranscripts()
	d.registerLimits()
	d.registerCalls()
	d.registerSchedules()
	d.registerLeases()
	d.registerApprovals()
	d.registerEvents()
	d.registerTools()
	d.registerOperate()
	d.registerVersions()
	d.registerPasskeys()
	d.registerMe()
	d.registerAlerts()
	d.registerHeld()
	d.registerRevocations()
	d.registerAudit()
	d.registerHealth()
	d.finishSpec()
	return d
}

// config is huma with nothing of its defaults: no hooks, which would add links to
// bodies, no second format, no page that loads scripts.
func (d *door) config(version string) huma.Config {
	format := strict(d.limits)
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "Placet",
				Version:     version,
				Description: "The dispatch boundary for AI agents' tool calls. Tenant, principal and agent always come from the token.",
				License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token":    {Type: "http", Scheme: "bearer", Description: "A token of a configured issuer: for the proposing audience, or for the answering one."},
					"workload": {Type: "apiKey", In: "header", Name: "Placet-Workload", Description: "A program's own key, alone or beside its user's token."},
				},
			},
		},
		Formats:       map[string]huma.Format{"application/json": format, "application/problem+json": format},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{transform},

		RejectUnknownQueryParameters: true,
	}
	return c
}

// operation fills in what every operation shares.
func (d *door) operation(id, method, path, summary string, c check, more ...func(*huma.Operation)) huma.Operation {
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary,
		MaxBodyBytes: int64(d.limits.Bytes) + 1, // huma refuses a body of exactly this length; gather has looked before
		Responses:    map[string]*huma.Response{"default": d.problemResponse("Refused; see docs/errors.md.")},
	}
	if c != nil {
		op.Middlewares = append(d.admits(c), d.gather)
		op.Security = []map[string][]string{{"token": {}}, {"workload": {}}, {"token": {}, "workload": {}}}
	}
	for _, f := range more {
		f(&op)
	}
	return op
}

func (d *door) problemResponse(description string) *huma.Response {
	s := d.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/problem+json": {Schema: s}}}
}

func describe(text string) func(*huma.Operation) {
	return func(op *huma.Operation) { op.Description = text }
}

func tag(name string) func(*huma.Operation) {
	return func(op *huma.Operation) { op.Tags = append(op.Tags, name) }
}

func status(code int) func(*huma.Operation) {
	return func(op *huma.Operation) { op.DefaultStatus = code }
}
