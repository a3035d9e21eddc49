package placet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/version"
)

func encoded(t testing.TB, f version.Files) []byte {
	t.Helper()
	text, err := version.Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (h *folderHouse) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// again is a restart.
func (h *folderHouse) again() {
	h.t.Helper()
	if err := h.p.Close(); err != nil {
		h.t.Fatal(err)
	}
	c, err := config.Load(filepath.Join(h.dir, "placet.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	o := h.p.o
	o.Config = c
	if h.p, err = Open(h.t.Context(), o); err != nil {
		h.t.Fatal(err)
	}
	p := h.p
	h.t.Cleanup(func() { _ = p.Close() })
}

// On a store of its own a start activates files that changed, and does not undo that
// somebody went back.
func TestRule_H2_GoingBackOutlivesAStart(t *testing.T) {
	h := openFolder(t, filesYAML, map[string]string{"agents/acme/victim.txt": "alive"})
	who, text := record.Who{System: "test"}, strings.ReplaceAll(filesYAML, "DIR", h.dir)
	h.write("tools.yaml", strings.Replace(text, deletes, "", 1))
	if r, err := h.p.Reload(t.Context(), who, ""); err != nil || r.Generation != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := h.p.Enact(t.Context(), who, Order{Generation: 1}); err != nil || r.Generation != 3 {
		t.Fatalf("%+v %v", r, err)
	}
	h.again()
	if g := h.p.Boundary().Generation(); g != 3 {
		t.Errorf("a start activated generation %d", g)
	}
	h.wants(h.do(h.caller("acme", "anna"), "delete_file", `{"path":"victim.txt"}`), record.Succeeded, "deleted")
	h.disk("victim.txt", "")
	h.write("tools.yaml", strings.Replace(text, deletes, "", 1)+"# a change\n")
	h.again()
	h.write("agents/acme/victim.txt", "alive")
	if a := h.do(h.caller("acme", "anna"), "delete_file", `{"path":"victim.txt"}`); a.Code != record.CodeNotAvailable || h.p.Boundary().Generation() != 4 {
		t.Errorf("changed files: generation %d, %s %s", h.p.Boundary().Generation(), a.Verdict, a.Code)
	}
	h.disk("victim.txt", "alive")
	list, err := h.p.store.Activations(t.Context(), 0, 10)
	if err != nil || len(list) != 4 || list[1].Files != record.FilesStored || list[0].Files != record.FilesOwn || len(list[0].Plan) == 0 {
		t.Errorf("%+v %v", list, err)
	}
}

// Files that are sent must be what the server reads, and are then all it decides by.
func TestFilesThatAreSent(t *testing.T) {
	h := openFolder(t, filesYAML, nil)
	own, err := Pack(h.p.o.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.p.PlanOrder(t.Context(), Order{Files: own}); record.KindOf(err) != record.Forbidden {
		t.Errorf("files that are sent where nobody said that they are accepted: %v", err)
	}
	h = openFolder(t, filesYAML, map[string]string{"placet.yaml": "policy: {sent: accepted}\n"})
	if o := h.p.overrides(); len(o) == 0 || o[0].Setting != "sent" {
		t.Errorf("it is no override: %+v", o)
	}
	files, err := Pack(h.p.o.Config)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v %v", files.Paths(), err)
	}
	if p, err := h.p.PlanOrder(t.Context(), Order{Files: files}); err != nil || p.Changed {
		t.Errorf("what is active already: %+v %v", p, err)
	}
	files["else.yaml"] = "x"
	if _, err := h.p.Enact(t.Context(), record.Who{System: "test"}, Order{Files: files}); record.KindOf(err) != record.Invalid || !strings.Contains(err.Error(), "else.yaml") {
		t.Errorf("a file that nothing names: %v", err)
	}
	delete(files, "else.yaml")
	files["tools.yaml"] = strings.Replace(files["tools.yaml"], deletes, "", 1)
	r, err := h.p.Enact(t.Context(), record.Who{System: "test"}, Order{Files: files})
	if err != nil || r.Generation != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, ok := h.p.Boundary().Current().Registry.Tool("delete_file"); ok {
		t.Error("the tool is still there")
	}
	delete(files, "tools.yaml")
	if _, err := h.p.Enact(t.Context(), record.Who{System: "test"}, Order{Files: files}); err == nil {
		t.Error("files without the registry were activated")
	}
}

const judging = `version: 1
environment: test
public_url: http://127.0.0.1:8088
store: sqlite:state/state.db
registry: [tools.yaml]
permissions: {operate: ["group:platform"]}
policy:
  layers:
    - {name: names, files: policy/names, mode: observe}
    - {name: sizes, files: policy/sizes}
`

const namesRego = `package agent.call
import rego.v1
default decision := "allow"
decision := "deny" if startswith(input.args.path, "secret")
decision := "requires-approval" if startswith(input.args.path, "plan")
`

const sizesRego = `package agent.call
import rego.v1
default decision := "allow"
decision := "deny" if count(input.args.content) > 5
`

// A plan counts the questions that rest on what changes, and no others: their bindings
// are others afterwards.
func TestPlanCountsQuestions(t *testing.T) {
	asking := strings.Replace(filesYAML, deletes, strings.Replace(deletes, "when: asked", "when: always, approvers: [\"group:leads\"]", 1), 1)
	h := openFolder(t, asking, map[string]string{"placet.yaml": judging, "policy/names/main.rego": namesRego, "policy/sizes/main.rego": sizesRego, "agents/acme/victim.txt": "alive"})
	anna := h.caller("acme", "anna")
	a := h.do(anna, "delete_file", `{"path":"victim.txt"}`)
	if a.Approval == nil {
		t.Fatalf("%s %s", a.Verdict, a.Code)
	}
	text := strings.ReplaceAll(asking, "DIR", h.dir)
	planned := func(registry, layer string, want int) {
		t.Helper()
		h.write("tools.yaml", registry)
		h.write("policy/sizes/main.rego", layer)
		r, err := h.p.Plan(t.Context())
		if err != nil || !r.Changed || r.Voids != want {
			t.Errorf("voids %d of %v (%v), want %d", r.Voids, r.Lines(), err, want)
		}
	}
	planned(strings.Replace(text, "write_file: {", "write_file: {per_minute: 7, ", 1), sizesRego, 0)
	planned(strings.Replace(text, "delete_file: {", "delete_file: {per_minute: 7, ", 1), sizesRego, 1)
	planned(text, strings.Replace(sizesRego, "> 5", "> 6", 1), 1)
	h.write("policy/sizes/main.rego", sizesRego)
	h.write("tools.yaml", strings.Replace(text, "delete_file: {", "delete_file: {per_minute: 7, ", 1))
	if _, err := h.p.Reload(t.Context(), record.Who{System: "test"}, ""); err != nil {
		t.Fatal(err)
	}
	b := h.do(anna, "delete_file", `{"path":"victim.txt"}`)
	if b.Approval == nil || b.Approval.ID == a.Approval.ID || b.Approval.Binding == a.Approval.Binding {
		t.Errorf("the question that rested on the entry is the same: %+v", b.Approval)
	}
	h.disk("victim.txt", "alive")
}

// Known calls give known figures: what an observing layer would have done, and which
// verdicts are others under another version.
func TestRule_H3_ReportAndDiff(t *testing.T) {
	h := openFolder(t, filesYAML, map[string]string{"placet.yaml": judging, "policy/names/main.rego": namesRego, "policy/sizes/main.rego": sizesRego, "agents/acme/x": "", "agents/globex/x": ""})
	anna := h.caller("acme", "anna")
	for path, content := range map[string]string{"secret1": "a", "secret2": "b", "secret3": "c", "plan1": "d", "plan2": "e", "other": "f", "long": "123456", "longer": "1234567"} {
		a := h.do(anna, "write_file", `{"path":"`+path+`","content":"`+content+`"}`)
		if denied := len(content) > 5; denied == (a.State() == record.Succeeded) {
			t.Fatalf("%s: %s %s %+v", path, a.State(), a.Code, a.Decision.Reasons)
		}
	}
	h.do(h.caller("globex", "gleb"), "write_file", `{"path":"secret4","content":"a"}`)
	h.disk("secret1", "a") // it observes
	h.disk("long", "")

	since := time.Now().Add(-time.Hour)
	r, err := dispatch.Observed(t.Context(), h.p.Records(), "acme", since, 1000)
	if err != nil || r.Calls != 8 || r.More || len(r.Rules) != 1 || r.Rules[0].Rule != "layer names" || r.Rules[0].Tool != "write_file" ||
		r.Rules[0].Denied != 3 || r.Rules[0].Asked != 2 || len(r.Rules[0].Examples) != 5 {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := dispatch.Observed(t.Context(), h.p.Records(), "acme", since, 2); err != nil || r.Calls != 2 || !r.More {
		t.Errorf("a bound: %+v %v", r, err)
	}
	if r, err := dispatch.Observed(t.Context(), h.p.Records(), "acme", time.Now().Add(time.Hour), 9); err != nil || r.Calls != 0 || len(r.Rules) != 0 {
		t.Errorf("since later: %+v %v", r, err)
	}

	o := h.operator("acme")
	compare := func(change map[string]string) dispatch.Comparison {
		t.Helper()
		files, err := Pack(h.p.o.Config)
		if err != nil {
			t.Fatal(err)
		}
		for path, text := range change {
			files[path] = text
		}
		c, err := h.p.compare(t.Context(), o, api.CompareOrder{To: api.VersionOrder{Files: files}, Since: since, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if n := c.Same; true {
			for _, x := range c.Changed {
				n += x.Count
			}
			for _, x := range c.Unknown {
				n += x.Count
			}
			if n != c.Calls || c.Calls != 8 {
				t.Errorf("%d of %d calls are told of", n, c.Calls)
			}
		}
		return c
	}
	if c := compare(nil); c.Same != 8 {
		t.Errorf("the same files: %+v", c)
	}
	c := compare(map[string]string{"policy/sizes/main.rego": strings.Replace(sizesRego, "> 5", "> 6", 1)})
	if len(c.Changed) != 1 || c.Same != 7 || c.Changed[0].From != record.Deny || c.Changed[0].To != record.Allow || c.Changed[0].Count != 1 {
		t.Errorf("a wider layer: %+v", c)
	}
	c = compare(map[string]string{"policy/sizes/main.rego": sizesRego + "decision := \"requires-approval\" if startswith(input.args.path, \"secret\")\n"})
	if len(c.Changed) != 1 || c.Changed[0].Count != 3 || c.Changed[0].To != record.RequiresApproval || c.Changed[0].Rule != "layer sizes" {
		t.Errorf("a stricter layer: %+v", c)
	}
	tools := strings.ReplaceAll(filesYAML, "DIR", h.dir)
	c = compare(map[string]string{"tools.yaml": strings.Replace(tools, "write: true, sources: [direct], approval: {when: asked}, repeat", "write: true, sources: [direct], approval: {when: always, approvers: [\"group:leads\"]}, repeat", 1)})
	if len(c.Changed) != 1 || c.Changed[0].Count != 6 || c.Changed[0].To != record.RequiresApproval || c.Changed[0].Rule != "registry approval" || c.Same != 2 {
		t.Errorf("an entry that asks: %+v", c)
	}
	c = compare(map[string]string{"policy/sizes/main.rego": sizesRego + "decision := \"deny\" if \"admin\" in input.principal.scopes\n"})
	if len(c.Unknown) != 1 || c.Unknown[0].Count != 8 || !strings.Contains(c.Unknown[0].Why, "principal.scopes") {
		t.Errorf("what is not recorded: %+v", c)
	}
	events, err := h.p.Records().Events(t.Context(), dispatch.EventQuery{Tenant: "acme", Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, e := range events {
		if e.Kind == record.EventCompared {
			told++
		}
	}
	if calls, err := h.p.Records().Calls(t.Context(), dispatch.CallQuery{Tenant: "acme", Limit: 500}); err != nil || len(calls) != 8 || told != 5 {
		t.Errorf("comparing left %d calls and %d events (%v)", len(calls), told, err)
	}
}

// operator is somebody who may operate in a tenant.
func (h *folderHouse) operator(tenant string) identity.Operator {
	h.t.Helper()
	token, err := h.issuer.Sign(identity.TokenSpec{Audience: h.p.o.Config.ConsoleAudience(), Subject: "root", Tenant: tenant, Groups: []string{"platform"}})
	if err != nil {
		h.t.Fatal(err)
	}
	o, err := h.p.Verifier().Operator(h.t.Context(), identity.Credentials{Bearer: token})
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}
