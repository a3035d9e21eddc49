package api

import (
	"context"
	"net/http"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// UseView is a limit and how much of it is used.
type UseView struct {
	Limit     string            `json:"limit" doc:"What is limited, as the configuration names it: per_minute, calls_per_run, money.per_day…"`
	Tool      string            `json:"tool,omitempty"`
	Principal *record.Principal `json:"principal,omitempty"`
	Lineage   record.LineageID  `json:"lineage,omitempty"`
	Run       record.RunID      `json:"run,omitempty" doc:"With turn, where it counts in one turn of a run."`
	Turn      string            `json:"turn,omitempty"`
	Target    string            `json:"target,omitempty" doc:"Digest of the targets that it counts for."`
	Currency  string            `json:"currency,omitempty" doc:"Where it is money; amounts are then decimals of this currency."`
	Used      string            `json:"used" doc:"A number, or a decimal where it is money."`
	Most      string            `json:"most,omitempty" doc:"Without it, no limit is configured now."`
	Seconds   int64             `json:"window_seconds,omitempty" doc:"Over which time it counts; without it, it never forgets."`
}

func useView(u dispatch.Use) UseView {
	write := func(n int64) string {
		if u.Currency != "" || u.Target != "" {
			return record.MicrosText(n)
		}
		return record.MicrosText(n * 1_000_000)
	}
	v := UseView{Limit: u.Limit, Tool: u.Tool, Principal: u.Principal, Lineage: u.Lineage, Run: u.Run, Turn: u.Turn, Target: u.Target, Currency: u.Currency,
		Used: write(u.Used), Seconds: int64(u.Window.Seconds())}
	if u.Bounded {
		v.Most = write(u.Most)
	}
	return v
}

type listLimitsInput struct {
	Run   string `query:"run" maxLength:"64" doc:"A run of the caller, whose lineage counts. Without it, the caller's own unvouched one."`
	After string `query:"after" maxLength:"1024" doc:"The next of an earlier page; readers only."`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Counters looked at; readers only."`
}

type limitsOutput struct {
	Body struct {
		Limits []UseView `json:"limits" nullable:"false" doc:"Those of which something is used."`
		Next   string    `json:"next,omitempty" doc:"Send it as after for the next page."`
	}
}

func (d *door) registerLimits() {
	add(d, d.operation("list-limits", http.MethodGet, "/v1/limits", "List used limits", d.asViewer, tag("limits"),
		describe("A caller sees its own; a reader sees the tenant's.")), d.listLimits)
}

func (d *door) listLimits(ctx context.Context, in *listLimitsInput) (*limitsOutput, error) {
	v := watcher(ctx)
	out := &limitsOutput{}
	var uses []dispatch.Use
	switch {
	case v.person.Valid():
		return nil, d.refusal(approversOnly())
	case v.all() && in.Run != "":
		return nil, d.refusal(record.Errorf(record.Forbidden, "run is for the run's own caller; a reader lists the tenant's without it"))
	case v.all():
		counted, err := d.reader.Counters(ctx, v.tenant(), record.Counter(in.After), in.Limit)
		if err != nil {
			return nil, d.refusal(err)
		}
		if len(counted) == in.Limit {
			out.Body.Next = string(counted[len(counted)-1].Counter)
		}
		uses = d.boundary.Used(counted)
	default:
		if in.Run != "" && !record.ValidID("run", in.Run) {
			return nil, d.refusal(absent("run"))
		}
		var err error
		if uses, err = d.boundary.Usage(ctx, v.caller, record.RunID(in.Run)); err != nil {
			return nil, d.refusal(hidden(err, "run"))
		}
	}
	out.Body.Limits = make([]UseView, len(uses))
	for i, u := range uses {
		out.Body.Limits[i] = useView(u)
	}
	return out, nil
}
