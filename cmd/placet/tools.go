package main

import (
	"context"
	"strings"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

type toolsCommand struct {
	Show  toolsShow  `cmd:"" default:"withargs" help:"Show listed, unlisted and quarantined tools (the default; see placet tools show --help)."`
	Add   toolsAdd   `cmd:"" help:"Ask a server for its tools and draft entries for review."`
	Diff  toolsDiff  `cmd:"" help:"Compare what is pinned with what servers offer now."`
	Lint  toolsLint  `cmd:"" help:"Warn of arguments that let more pass than they should: free texts, open objects, interpreters."`
	Probe toolsProbe `cmd:"" help:"Try hostile values on one tool's guards, and hostile results on its calls. Nothing is called."`
	Lock  toolsLock  `cmd:"" help:"Pin what a server offers now, once its diff was reviewed."`
}

type toolsShow struct {
	configFlag
	Inventory bool `help:"Count marks: read, write, destructive, financial, sink, unmarked."`
	Offline   bool `help:"Contact no server: show what the files say."`
}

// toolView is one tool as it is shown.
type toolView struct {
	Status string   `json:"status"` // listed, unlisted, quarantined or unreachable
	Tool   string   `json:"tool,omitempty"`
	Server string   `json:"server"`
	Marks  []string `json:"marks,omitempty"`
	Place  string   `json:"place,omitempty"`
	Why    string   `json:"why,omitempty"`
	Diff   []string `json:"diff,omitempty"`
	YAML   string   `json:"yaml,omitempty"`
}

const (
	statusListed      = "listed"
	statusUnlisted    = "unlisted"
	statusQuarantined = "quarantined"
	statusUnreachable = "unreachable"
)

func (c toolsShow) Run(ctx context.Context, p *program) error {
	b, err := p.bench(ctx, c.configFlag)
	if err != nil {
		return err
	}
	defer b.close()
	if c.Inventory {
		return b.inventory(p)
	}
	now := map[string][]registry.Offer{}
	var views []toolView
	if !c.Offline {
		views = b.ask(ctx, now)
	}
	unreachable := len(views)
	views = append(b.named(now), append(b.unlisted(now), views...)...)
	if err := p.tools(views); err != nil {
		return err
	}
	if unreachable > 0 {
		return &verdict{code: record.SurfaceOf(record.Unavailable).Exit, message: "some servers did not answer; see above, or use --offline"}
	}
	return nil
}

// ask fills in what each server offers now, and returns those that do not answer.
func (b *bench) ask(ctx context.Context, now map[string][]registry.Offer) (silent []toolView) {
	for s := range b.checked.Registry().Servers() {
		if s.Inproc {
			continue
		}
		offers, err := b.offers(ctx, s)
		if err != nil {
			silent = append(silent, toolView{Status: statusUnreachable, Server: s.Name, Place: s.Place, Why: err.Error()})
			continue
		}
		now[s.Name] = offers
	}
	return silent
}

// named shows the tools that the registry names: callable ones first.
func (b *bench) named(now map[string][]registry.Offer) []toolView {
	var listed, held []toolView
	for t := range b.checked.Registry().Tools() {
		v := toolView{Status: statusListed, Tool: t.Name, Server: t.Server, Marks: marks(t), Place: t.Place}
		if offers, asked := now[t.Server]; asked {
			if v.Why, v.Diff = drift(t, offers); v.Why != "" {
				v.Status = statusQuarantined
				held = append(held, v)
				continue
			}
		}
		listed = append(listed, v)
	}
	for _, q := range b.checked.Registry().Quarantined() {
		v := toolView{Status: statusQuarantined, Tool: q.Tool.Name, Server: q.Tool.Server, Marks: marks(q.Tool), Place: q.Tool.Place, Why: q.Reason}
		if offers, asked := now[q.Tool.Server]; asked && q.Tool.Pin != nil {
			_, v.Diff = drift(q.Tool, offers)
		}
		held = append(held, v)
	}
	return append(listed, held...)
}

// unlisted shows what servers offer and nobody admitted.
func (b *bench) unlisted(now map[string][]registry.Offer) []toolView {
	var out []toolView
	for s := range b.checked.Registry().Servers() {
		for _, d := range registry.Draft(s.Name, b.checked.Registry().Unlisted(s.Name, now[s.Name]), b.taken()) {
			out = append(out, toolView{Status: statusUnlisted, Tool: d.Offer.Name, Server: s.Name, YAML: d.YAML, Marks: methodMark(d.Offer.Method),
				Why: "admit: placet tools add " + s.Name + " --only " + d.Offer.Name})
		}
	}
	return out
}

// methodMark is what a resource or a prompt is shown with; a tool has no such mark.
func methodMark(m registry.Method) []string {
	if m == registry.MethodTool {
		return nil
	}
	return []string{m.String()}
}

// taken reports names that the registry uses.
func (b *bench) taken() func(string) bool {
	used := map[string]bool{}
	for _, r := range b.checked.Registry().Inventory() {
		used[r.Tool] = true
	}
	return func(name string) bool { return used[name] }
}

// drift says how a tool's server departs from the pin; "" when it does not.
func drift(t *registry.Tool, offers []registry.Offer) (why string, diff []string) {
	var found []registry.Offer
	for _, o := range offers {
		if o.Key() == t.Offered() {
			found = append(found, o)
		}
	}
	switch {
	case t.Pin == nil:
		return "it is not pinned", nil
	case len(found) == 0:
		return "the server no longer offers " + t.Offered(), nil
	case len(found) > 1:
		return "the server offers two things named " + t.Offered(), nil
	}
	if err := t.Pin.Check(found[0]); err != nil {
		return "the server " + err.Error(), registry.Diff(*t.Pin, found[0])
	}
	return "", nil
}

func marks(t *registry.Tool) []string {
	var out []string
	for _, m := range []struct {
		is   bool
		name string
	}{{t.Read, "read"}, {t.Write, "write"}, {t.Destructive, "destructive"}, {t.Financial, "financial"}, {t.Sink, "sink"}} {
		if m.is {
			out = append(out, m.name)
		}
	}
	return append(out, methodMark(t.Method)...)
}

// tools prints the table, and below it what does not fit into one.
func (p *program) tools(views []toolView) error {
	err := list(p, views, "The registry names no tool.", []string{"STATUS", "TOOL", "SERVER", "MARKS", "PLACE", "WHY"}, func(v toolView) []string {
		return []string{v.Status, v.Tool, v.Server, strings.Join(v.Marks, ","), v.Place, v.Why}
	})
	if err != nil || p.json {
		return err
	}
	for _, v := range views {
		p.details(v)
	}
	return nil
}

func (p *program) details(v toolView) {
	if len(v.Diff) > 0 {
		p.say("\n%s differs from its pin (- pinned, + offered now):", safe(v.Tool))
		for _, l := range v.Diff {
			p.say("  %s", safe(l))
		}
	}
	if v.YAML != "" {
		p.say("\n%s of %s is not admitted. To admit it, below tools:", safe(v.Tool), safe(v.Server))
		p.say("%s", strings.TrimSuffix(v.YAML, "\n"))
	}
}
