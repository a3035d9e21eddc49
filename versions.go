package placet

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/version"
)

// Order says what to activate, or to plan.
type Order struct {
	Files      version.Files // sent; nil: those of the server
	Digest     string        // an earlier version, by the digest it had
	Generation int64         // an earlier version, by the activation

	Planned string // activate only what a plan showed: its version
	After   int64  // and only if this generation is active; 0: whatever is
}

// from says where the files of an order are.
func (o Order) from() record.FilesFrom {
	switch {
	case o.Digest != "" || o.Generation > 0:
		return record.FilesStored
	case o.Files != nil:
		return record.FilesSent
	}
	return record.FilesOwn
}

// Reloaded is what an order came to.
type Reloaded struct {
	Generation int64             // the number of the version that decides now
	Version    string            // the digest of what the order means
	Changed    bool              // false: it is what was active already
	Registry   []registry.Change // what it changes
	Layers     []string          // policy layers, decision points and parts of the configuration added, removed or changed
	Voids      int               // questions, waiting or answered with yes and not used, that rest on what changes
	More       bool              // there are more of them
}

// Lines is the plan for people, one change a line.
func (r Reloaded) Lines() []string {
	out := make([]string, 0, len(r.Registry)+len(r.Layers)+1)
	for _, c := range r.Registry {
		line := fmt.Sprintf("%s %s: %s", c.Direction, c.Subject, c.Detail)
		if c.Place != "" {
			line += " (" + c.Place + ")"
		}
		out = append(out, line)
	}
	out = append(out, r.Layers...)
	if r.Voids > 0 {
		most := ""
		if r.More {
			most = "at least "
		}
		out = append(out, fmt.Sprintf("voids %s%d of the questions that wait or are answered and not used: they rest on what changes, and are asked anew", most, r.Voids))
	}
	return out
}

// Plan reads the files and says what activating them would change. It activates nothing.
func (p *Placet) Plan(ctx context.Context) (Reloaded, error) { return p.PlanOrder(ctx, Order{}) }

// PlanOrder says what an order would change. It activates nothing.
func (p *Placet) PlanOrder(ctx context.Context, o Order) (Reloaded, error) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	r, _, err := p.prepare(ctx, o)
	return r, err
}

// Reload reads registry and policy files again and activates them. On any error
// the version before stays. planned is the version that a plan showed; when the
// files have changed since, nothing is activated. Empty: whatever they are now.
func (p *Placet) Reload(ctx context.Context, by record.Who, planned string) (Reloaded, error) {
	return p.Enact(ctx, by, Order{Planned: planned})
}

// Enact activates what an order means. On any error the version before stays.
func (p *Placet) Enact(ctx context.Context, by record.Who, o Order) (Reloaded, error) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	r, next, err := p.prepare(ctx, o)
	switch {
	case err != nil:
		return Reloaded{}, err
	case o.Planned != "" && o.Planned != next.Digest:
		return Reloaded{}, record.Errorf(record.Conflict, "the files have changed since the plan was made; plan again")
	case o.After != 0 && o.After != r.Generation:
		return Reloaded{}, record.Errorf(record.Conflict, "another version was activated since the plan was made; plan again")
	}
	r.Generation, err = p.boundary.Enact(ctx, next, dispatch.Act{Who: by, Files: o.from(), Plan: r.Lines()})
	if err == nil {
		p.moved(r.Changed)
	}
	return r, err
}

// moved tells clients that lists of tools may be others now.
func (p *Placet) moved(changed bool) {
	if changed && p.mcp != nil {
		p.mcp.ToolsChanged()
	}
}

// disk are the files of this machine.
func (p *Placet) disk() *version.Reader { return version.Disk(p.o.Config.Folder(), p.o.ReadFile) }

// prepare loads what an order means and compares it with what is active.
func (p *Placet) prepare(ctx context.Context, o Order) (Reloaded, dispatch.Active, error) {
	from := p.disk()
	var err error
	switch o.from() {
	case record.FilesStored:
		from, err = p.earlier(ctx, o)
	case record.FilesSent:
		if p.o.Config.Policy.Sent == "" {
			return Reloaded{}, dispatch.Active{}, record.Errorf(record.Forbidden, "this server takes no files from operators: put them in its folder and reload, or set policy.sent: accepted in its placet.yaml")
		}
		from = version.Stored(p.o.Config.Folder(), o.Files)
	}
	if err != nil {
		return Reloaded{}, dispatch.Active{}, err
	}
	next, err := p.load(ctx, from)
	if err != nil {
		return Reloaded{}, dispatch.Active{}, err
	}
	if unread := from.Unread(); len(unread) > 0 {
		return Reloaded{}, dispatch.Active{}, record.Errorf(record.Invalid, "this server's configuration names no file %s: send what it reads, or change placet.yaml", unread[0])
	}
	generation, digest, err := p.store.Generation(ctx)
	if err != nil {
		return Reloaded{}, dispatch.Active{}, err
	}
	base, was := p.base(ctx, digest)
	r := plan(base, next, was)
	r.Generation, r.Changed = generation, digest != next.Digest
	if r.Changed && base != nil {
		r.Voids, r.More, err = p.voids(ctx, *base, next)
	}
	return r, next, err
}

// earlier are the files of a version that was active before.
func (p *Placet) earlier(ctx context.Context, o Order) (*version.Reader, error) {
	digest := o.Digest
	if digest == "" {
		list, err := p.store.Activations(ctx, o.Generation+1, 1)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 || list[0].To != o.Generation {
			return nil, record.Errorf(record.NotFound, "there was no activation %d; see placet policy versions", o.Generation)
		}
		digest = list[0].Digest
	}
	files, _, err := p.stored(ctx, digest)
	if err != nil {
		return nil, err
	}
	return version.Stored(p.o.Config.Folder(), files), nil
}

// stored are the files of a version, if they are what was stored and this program knows
// all that it needs.
func (p *Placet) stored(ctx context.Context, digest string) (version.Files, record.Version, error) {
	v, err := p.store.Version(ctx, digest)
	if err == nil {
		err = v.Sound()
	}
	if err == nil {
		err = v.Known()
	}
	if err != nil {
		return nil, v, err
	}
	files, err := version.Decode(v.Content)
	return files, v, err
}

// base is what an order is compared with: what is active, as this process would load
// it, and the parts that the activation had.
func (p *Placet) base(ctx context.Context, digest string) (*dispatch.Active, []record.Part) {
	now := p.boundary.Current()
	if now != nil && now.Digest == digest {
		return now, now.Parts
	}
	files, v, err := p.stored(ctx, digest)
	if err == nil {
		var a dispatch.Active
		if a, err = p.load(ctx, version.Stored(p.o.Config.Folder(), files)); err == nil {
			return &a, v.Parts
		}
	}
	return now, v.Parts
}

// plan says what putting a version in the place of another changes.
func plan(now *dispatch.Active, next dispatch.Active, was []record.Part) Reloaded {
	if now == nil {
		return Reloaded{Changed: true, Version: next.Digest, Registry: registry.Plan(nil, next.Registry)}
	}
	r := Reloaded{Version: next.Digest, Registry: registry.Plan(now.Registry, next.Registry)}
	had := map[string]policy.Layer{}
	for _, l := range now.Policy.Layers() {
		had[l.Name()] = l
	}
	for _, l := range next.Policy.Layers() {
		old, ok := had[l.Name()]
		delete(had, l.Name())
		switch {
		case !ok:
			r.Layers = append(r.Layers, "added layer "+l.Name())
		case old.Mode() != l.Mode() && l.Mode() == policy.Observe:
			r.Layers = append(r.Layers, fmt.Sprintf("weakened layer %s: mode is now %s", l.Name(), l.Mode()))
		case old.Mode() != l.Mode():
			r.Layers = append(r.Layers, fmt.Sprintf("changed layer %s: mode is now %s", l.Name(), l.Mode()))
		case old.Version() != l.Version():
			r.Layers = append(r.Layers, "changed layer "+l.Name()+": its rules or data")
		}
	}
	for _, l := range now.Policy.Layers() {
		if had[l.Name()] != nil {
			r.Layers = append(r.Layers, "weakened: layer "+l.Name()+" is gone")
		}
	}
	r.Layers = append(r.Layers, plannedPoints(now.Points, next.Points)...)
	for _, name := range record.Differences(was, next.Parts) {
		if ofConfiguration(name) {
			r.Layers = append(r.Layers, "changed: "+name+" of placet.yaml")
		}
	}
	return r
}

// parts names what a version is made of.
type parts struct{ list []record.Part }

func (p *parts) add(name string, of ...[]byte) {
	p.list = append(p.list, record.Part{Name: name, Digest: canon.Of("placet/part/1", of...)})
}

// partsOf are the pieces of a registry.
func partsOf(s *registry.Snapshot) *parts {
	p := &parts{}
	held := map[string]string{}
	for _, q := range s.Quarantined() {
		held[q.Tool.Name] = q.Reason
		p.add("tool "+q.Tool.Name, q.Tool.Digest[:], []byte(q.Reason))
	}
	for t := range s.Tools() {
		p.add("tool "+t.Name, t.Digest[:], nil)
	}
	for srv := range s.Servers() {
		p.add("server "+srv.Name, srv.Digest[:])
	}
	return p
}

// ofConfiguration reports whether a part is placet.yaml's alone.
func ofConfiguration(part string) bool {
	for _, files := range []string{"tool ", "server ", "layer ", "decision point "} {
		if strings.HasPrefix(part, files) {
			return false
		}
	}
	return true
}

// policyFiles reads the files of a layer, or of a part of one.
func policyFiles(name string) (map[string][]byte, error) {
	files, err := rego.ReadFiles(name)
	return files, err
}

// readServerFiles reads what HTTP operations, named queries and schemas of leased tools
// stand in, so that it is part of the version. One that cannot be read is left out: its tools are not there.
func readServerFiles(s *registry.Snapshot, from *version.Reader) {
	for srv := range s.Servers() {
		switch srv.Kind {
		case registry.KindOperations:
			_, _ = from.ReadFile(srv.Operations)
		case registry.KindQueries:
			_, _ = from.ReadTree(srv.Queries, sqlFiles)
		case registry.KindLease:
			for _, schema := range srv.Schemas {
				_, _ = from.ReadFile(schema)
			}
		}
	}
}

func sqlFiles(folder string) (map[string][]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), "*.sql")
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[name], err = root.ReadFile(filepath.Base(name)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// maxVoids bounds how many questions a plan looks at.
const maxVoids = 10_000

// voids counts the questions that wait, or that people said yes to and no call has
// used, and that rest on what differs between two versions (rule D1).
func (p *Placet) voids(ctx context.Context, now, next dispatch.Active) (n int, more bool, err error) {
	looked := 0
	for _, list := range []func(context.Context, record.ApprovalID, int) ([]dispatch.Loaded, error){p.store.Pending, p.store.Unconsumed} {
		for after := record.ApprovalID(""); ; {
			const page = 200
			found, err := list(ctx, after, page)
			if err != nil {
				return n, more, err
			}
			for _, l := range found {
				after = l.Approval.ID
				if rests(l.Call, now, next) {
					n++
				}
			}
			if looked += len(found); looked >= maxVoids {
				return n, true, nil
			}
			if len(found) < page {
				break
			}
		}
	}
	return n, false, nil
}

// rests reports whether a call's question rests on what two versions have differently.
// Where that cannot be known it says yes: which groups the principal is in is not recorded.
func rests(c record.Call, now, next dispatch.Active) bool {
	t, ok := next.Registry.Tool(c.Tool.Name)
	if !ok || t.Digest != c.Tool.Version {
		return true
	}
	in := &policy.Input{Tool: policy.Tool{Name: c.Tool.Name, Server: c.Tool.Server},
		Principal: policy.Principal{Principal: c.Principal, Tenant: c.Tenant}, Agent: policy.Agent{ID: c.Agent}}
	for _, part := range record.Differences(now.Parts, next.Parts) {
		name, isLayer := strings.CutPrefix(part, "layer ")
		switch {
		case isLayer && (fits(now, name, in) || fits(next, name, in)):
			return true
		case strings.HasPrefix(part, "decision point "):
			return true
		case part == "approvals.default" && c.Decision.Rule != nil &&
			slices.ContainsFunc(c.Decision.Rule.Parts, func(p record.ApprovalPart) bool { return p.From == part }):
			return true
		}
	}
	return false
}

func fits(a dispatch.Active, layer string, in *policy.Input) bool {
	for _, l := range a.Policy.Layers() {
		if l.Name() == layer {
			ok, err := l.For().Fits(in)
			return ok || err != nil
		}
	}
	return false
}
