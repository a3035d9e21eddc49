package placet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// checkedOptions is an embedding program's configuration in a folder of its own.
func checkedOptions(t *testing.T, tools string, declared ...Tool) Options {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"placet.yaml": "version: 1\nenvironment: test\nstore: sqlite:state.db\nregistry: [tools.yaml]\n", "tools.yaml": tools}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := identity.NewLocal(LocalIssuer, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: c, Local: issuer, Tools: declared}
}

func goTool(name, scope string) Tool {
	return Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Entry: registry.Entry{Scope: scope, Read: true},
		Handler: func(context.Context, local.Call) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }}
}

// A check says of every tool whether a caller would see it, and of nothing that
// it is active.
func TestCheckListsWhatACallerWouldSee(t *testing.T) {
	o := checkedOptions(t, "version: 1\n", goTool("alpha", "a"), goTool("beta", "b"))
	c, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	token, err := o.Local.Sign(identity.TokenSpec{Audience: o.Config.Audience(), Subject: "anna", Tenant: "dev", Agent: "bot", Scopes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := c.Verifier().Caller(t.Context(), identity.Credentials{Bearer: token})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Listed(who)
	want := []Listed{{"alpha", true, ""}, {"beta", false, "the token lacks the scope b"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := os.Stat(o.Config.StorePath()); !os.IsNotExist(err) {
		t.Errorf("a check opened a store: %v", err)
	}
}

// The files of operations and queries are read too: what is wrong in them is said, with its place.
func TestCheckReadsOperationsAndQueries(t *testing.T) {
	const tools = "version: 1\nservers:\n  orders: {operations: orders.yaml}\n  stock: {queries: stock, database: \"sqlite:/nowhere/stock.db\"}\ntools:\n  get_order: {server: orders, scope: a, read: true}\n"
	for name, c := range map[string]struct {
		operations string
		want       bool
	}{
		"in order": {"version: 1\nbase: https://orders.example.com\noperations:\n  get_order: {method: GET, path: /orders, description: Reads an order., result: [id]}\n", false},
		"misspelt": {"version: 1\nbase: https://orders.example.com\noperations:\n  get_order: {methodd: GET, path: /orders}\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := checkedOptions(t, tools)
			dir := filepath.Dir(o.Config.File())
			if err := os.WriteFile(filepath.Join(dir, "orders.yaml"), []byte(c.operations), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "stock"), 0o700); err != nil {
				t.Fatal(err)
			}
			checked, err := Check(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, w := range checked.Warnings() {
				if w.Path == "servers.orders" || w.Path == "servers.stock" {
					said = append(said, w.Message)
				}
			}
			if c.want != (len(said) == 1) || c.want && !strings.Contains(said[0], "methodd") {
				t.Errorf("warned %q", said)
			}
		})
	}
}

// What a start refuses, a check refuses, with the same words.
func TestCheckRefusesWhatOpenRefuses(t *testing.T) {
	server := "version: 1\nservers: {desk: {url: \"https://desk.example.com\"}}\ntools:\n"
	for name, o := range map[string]Options{
		"unmarked tool":      checkedOptions(t, server+"  read: {server: desk, scope: a}\n"),
		"unknown server":     checkedOptions(t, server+"  read: {server: dusk, scope: a, read: true}\n"),
		"tool without code":  checkedOptions(t, "version: 1\n", Tool{Name: "alpha"}),
		"approver of nobody": checkedOptions(t, "version: 1\n", approvedBy("alpha", "principal:lena@https://elsewhere.example.com")),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Check(t.Context(), o)
			p, opened := Open(t.Context(), o)
			if opened == nil {
				t.Fatal(p.Close())
			}
			if err == nil || err.Error() != opened.Error() {
				t.Errorf("check: %v\nopen:  %v", err, opened)
			}
			if record.KindOf(err) != record.Invalid {
				t.Errorf("kind %s", record.KindOf(err))
			}
		})
	}
}

func approvedBy(name, ref string) Tool {
	t := goTool(name, "a")
	t.Entry.Read, t.Entry.Write = false, true
	t.Entry.Approval.Approvers = []string{ref}
	return t
}

// A command is compared with its pin at every start: another program is not run.
func TestChangedCommandIsQuarantined(t *testing.T) {
	program := filepath.Join(t.TempDir(), "server.sh")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("#!/bin/sh\nexit 0\n")
	o := checkedOptions(t, "version: 1\nservers: {desk: {command: [\""+program+"\"]}}\ntools:\n  read: {server: desk, scope: a, read: true}\n")
	pin, err := measured(t.Context())([]string{program})
	if err != nil {
		t.Fatal(err)
	}
	offer, err := registry.PinOf(registry.Offer{Name: "read", InputSchema: json.RawMessage(`{"type":"object"}`)})
	if err != nil {
		t.Fatal(err)
	}
	lock := registry.NewLock()
	lock.Servers["desk"], lock.Tools["read"] = pin, registry.LockedTool{Server: "desk", Pin: offer}
	text, err := lock.Write()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(registry.LockPath(o.Config.Registry[0]), text, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, ok := p.Boundary().Current().Registry.Tool("read"); !ok {
		t.Fatalf("the pinned command is held: %v", p.Boundary().Current().Registry.Quarantined())
	}
	write("#!/bin/sh\nexit 1\n")
	r, err := p.Reload(t.Context(), record.Who{System: "test"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Boundary().Current().Registry.Tool("read"); ok {
		t.Error("a changed command may be started")
	}
	if plan := strings.Join(r.Lines(), "\n"); !strings.Contains(plan, "is another program than the one pinned") {
		t.Errorf("the plan does not say why:\n%s", plan)
	}
}

// TestReloadActivatesWhatWasPlanned: files that change between plan and
// activation activate nothing.
func TestReloadActivatesWhatWasPlanned(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tools.yaml", "version: 1\n")
	layer := func(verdict string) {
		if err := os.MkdirAll(filepath.Join(dir, "policy"), 0o700); err != nil {
			t.Fatal(err)
		}
		write("policy/main.rego", "package agent.call\nimport rego.v1\ndecision := \""+verdict+"\"\n")
	}
	layer("deny")
	write("placet.yaml", "version: 1\nenvironment: test\nstore: sqlite:state.db\nregistry: [tools.yaml]\npolicy: {layers: [{name: one, files: policy}]}\n")
	cfg, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	who := record.Who{System: "test"}
	layer("requires-approval")
	plan, err := p.Plan(t.Context())
	if err != nil || !plan.Changed || plan.Generation != 1 || len(plan.Lines()) != 1 {
		t.Fatalf("%+v %v", plan, err)
	}
	layer("allow")
	if _, err := p.Reload(t.Context(), who, plan.Version); record.KindOf(err) != record.Conflict {
		t.Fatalf("something else than was planned: %v", err)
	}
	layer("requires-approval")
	done, err := p.Reload(t.Context(), who, plan.Version)
	if err != nil || done.Generation != 2 || done.Version != plan.Version {
		t.Fatalf("%+v %v", done, err)
	}
}
