package api

import (
	"strings"
	"testing"

	"github.com/placet-dev/placet/identity"
)

// TestRule_B4_ChildRunsOverTheAPI: opened, shown at the run above, used by its own agent,
// and over with it.
func TestRule_B4_ChildRunsOverTheAPI(t *testing.T) {
	h := newHouse(t)
	helper := h.token(identity.TokenSpec{Audience: proposing, Subject: "anna", Tenant: "acme", Agent: "helper", Scopes: []string{"work"}})
	run := h.want(h.do(h.anna(), "POST", "/v1/runs", `{}`), 201, "").get("id")
	body := `{"agent":"helper","label":"part","tools":["note"],"targets":{"order":["a",1.50]},"money":{"EUR":"20.5"},"calls":3,"until":"` + h.soon() + `"}`
	child := h.want(h.do(h.anna(), "POST", "/v1/runs/"+run+"/children", body), 201, "")
	id := child.get("id")
	if child.get("parent") != run || child.get("agent") != "helper" || child.get("label") != "part" ||
		!strings.Contains(child.body, `"targets":{"order":["a",1.5]`) && !strings.Contains(child.body, `"targets":{"order":[1.5,"a"]`) || !strings.Contains(child.body, `"EUR":"20.5"`) {
		t.Fatalf("the child run: %s", child.body)
	}
	if shown := h.want(h.do(h.anna(), "GET", "/v1/runs/"+run, ""), 200, ""); !strings.Contains(shown.body, `"children":["`+id+`"]`) {
		t.Fatalf("the run above: %s", shown.body)
	}
	h.want(h.do(helper, "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"b"},"run":"`+id+`"}`), 403, "not_granted")
	h.effects(0)
	h.want(h.do(helper, "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"a"},"run":"`+id+`"}`), 200, "")
	h.effects(1)
	for name, wrong := range map[string]string{
		"no tools":       `{"tools":[],"calls":1,"until":"` + h.soon() + `"}`,
		"no end":         `{"tools":["note"],"calls":1}`,
		"another member": `{"tools":["note"],"calls":1,"until":"` + h.soon() + `","parent":"x"}`,
		"money":          `{"tools":["note"],"calls":1,"money":{"EUR":"-1"},"until":"` + h.soon() + `"}`,
		"a past end":     `{"tools":["note"],"calls":1,"until":"2000-01-01T00:00:00Z"}`,
	} {
		if r := h.do(h.anna(), "POST", "/v1/runs/"+run+"/children", wrong); r.status != 400 && r.status != 422 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	h.want(h.do(h.anna(), "POST", "/v1/runs/"+run+"/children", strings.Replace(body, `"calls":3`, `"calls":400000`, 1)), 403, "forbidden")
	h.want(h.do(helper, "POST", "/v1/runs/"+run+"/children", body), 404, "not_found")
	h.want(h.do(h.anna(), "POST", "/v1/runs/"+run+"/end", `{}`), 200, "")
	h.want(h.do(helper, "POST", "/v1/calls", `{"tool":"note","arguments":{"order":"a"},"run":"`+id+`"}`), 409, "conflict")
	h.effects(1)
}
