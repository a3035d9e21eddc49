package rego_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
)

// Every member of the input stands in docs/policy.md.
func TestInputIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## The input")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	word := regexp.MustCompile("`([a-z_.]+)`")
	for _, line := range strings.Split(section, "\n") {
		cell, ok := strings.CutPrefix(line, "| ")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, " | ")
		base := ""
		for _, m := range word.FindAllStringSubmatch(cell, -1) {
			name := m[1]
			if strings.HasPrefix(name, ".") {
				name = base + name
			} else if i := strings.LastIndex(name, "."); i > 0 {
				base = name[:i]
			}
			documented[name] = true
		}
	}
	doc, err := json.Marshal(&policy.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(doc, &members); err != nil {
		t.Fatal(err)
	}
	present := map[string]bool{}
	walk("", members, present)
	for name := range present {
		if !documented[name] {
			t.Errorf("docs/policy.md does not explain %s", name)
		}
	}
	for name := range documented {
		if !present[name] {
			t.Errorf("docs/policy.md explains %s, which the input does not have", name)
		}
	}
}

func walk(base string, object map[string]any, into map[string]bool) {
	for name, v := range object {
		inner, ok := v.(map[string]any)
		if ok && len(inner) > 0 {
			walk(base+name+".", inner, into)
		} else {
			into[base+name] = true
		}
	}
}

// The schema that `policy test` checks rules against names exactly the members
// of the document.
func TestSchemaEqualsDocument(t *testing.T) {
	full := refund()
	full.Principal.Groups = append(full.Principal.Groups, record.Group{Issuer: "https://other.example.com", Name: "x"})
	full.Run.Labels = []string{"untrusted"}
	full.Origins = map[string]string{"order_id": "user"}
	full.Approval = &policy.Approval{ID: "apr_1"}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var doc, schema any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(rego.InputSchema), &schema); err != nil {
		t.Fatal(err)
	}
	compare(t, "input", doc, schema.(map[string]any))
}

func compare(t *testing.T, at string, doc any, schema map[string]any) {
	switch v := doc.(type) {
	case []any:
		for _, item := range v {
			compare(t, at+"[]", item, schema["items"].(map[string]any))
		}
	case map[string]any:
		if schema["additionalProperties"] != false {
			return // open: arguments, claims and the like
		}
		properties := schema["properties"].(map[string]any)
		for name, item := range v {
			if p, ok := properties[name].(map[string]any); ok {
				compare(t, at+"."+name, item, p)
			} else {
				t.Errorf("the schema lacks %s.%s", at, name)
			}
		}
		for name := range properties {
			if _, ok := v[name]; !ok {
				t.Errorf("the schema has %s.%s, the document has not", at, name)
			}
		}
	}
}
