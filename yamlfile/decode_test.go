package yamlfile

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type kind string

func (kind) Choices() []string { return []string{"always", "asked"} }

type sampleRule struct {
	When      kind     `yaml:"when" doc:"When it asks."`
	Approvers []string `yaml:"approvers"`
	Place     Place    `yaml:"-"`
}

type sampleTool struct {
	Server    string          `yaml:"server,required" doc:"Where it runs."`
	PerMinute *int            `yaml:"per_minute"`
	Read      bool            `yaml:"read"`
	Timeout   time.Duration   `yaml:"timeout" default:"20s"`
	Rule      sampleRule      `yaml:"rule"`
	Targets   []string        `yaml:"targets" mapping:"Kinds"`
	Kinds     Entries[string] `yaml:"-"`
	Key       SecretRef       `yaml:"key"`
	Guards    Later           `yaml:"guards"`
	Limit     *sampleNumeric  `yaml:"limit"`
	Place     Place           `yaml:"-"`
}

func (*sampleTool) Hints() map[string]string { return map[string]string{"rate": "per_minute"} }

func (t *sampleTool) Check(fail func(key, message string)) {
	if t.Read && t.PerMinute != nil && *t.PerMinute == 0 {
		fail("per_minute", "must be more than 0 here")
	}
}

type sampleNumeric struct{ text string }

func (n *sampleNumeric) UnmarshalText(b []byte) error {
	if len(b) > 6 {
		return fmt.Errorf("wants a short number")
	}
	n.text = string(b)
	return nil
}
func (*sampleNumeric) YAMLNumber() {}

type sampleFile struct {
	Version int                 `yaml:"version,required"`
	Files   Strings             `yaml:"files"`
	Tools   Entries[sampleTool] `yaml:"tools"`
}

func TestDecode(t *testing.T) {
	var f sampleFile
	src := `# a comment
version: 1
files: one.yaml
tools:
  read_it:            # and another
    server: helpdesk
    per_minute: 0
    rule: {when: asked, approvers: ["group:a", b]}
    targets: [order_id]
    key: env:SECRET
    limit: 200.50
  write_it:
    server: |-
      two
      lines
    timeout: 1m30s
`
	if ps := Decode("t.yaml", []byte(src), &f); len(ps) > 0 {
		t.Fatal(ps)
	}
	if f.Version != 1 || len(f.Files) != 1 || f.Files[0] != "one.yaml" || len(f.Tools) != 2 {
		t.Fatalf("read %+v", f)
	}
	a, b := f.Tools[0], f.Tools[1]
	if a.Key != "read_it" || a.Place != "t.yaml:5" || a.Value.Place != "t.yaml:5" || a.Value.Rule.Place != "t.yaml:8" {
		t.Errorf("places: %q %q %q", a.Place, a.Value.Place, a.Value.Rule.Place)
	}
	if *a.Value.PerMinute != 0 || a.Value.Timeout != 20*time.Second || a.Value.Rule.When != "asked" || a.Value.Limit.text != "200.50" {
		t.Errorf("values: %+v", a.Value)
	}
	if b.Value.PerMinute != nil || b.Value.Server != "two\nlines" || b.Value.Timeout != 90*time.Second {
		t.Errorf("values: %+v", b.Value)
	}
}

// Each text is wrong in the ways that its messages say, and in no other.
func TestProblems(t *testing.T) {
	tool := func(lines string) string { return "version: 1\ntools:\n  x:\n    server: s\n    " + lines }
	for _, c := range []struct{ name, src, want string }{
		{"unknown key", tool("per_min: 3"), "t.yaml:5:5: tools.x.per_min: is not a key here; did you mean per_minute?"},
		{"hinted key", tool("rate: 3"), "t.yaml:5:5: tools.x.rate: is not a key here; did you mean per_minute?"},
		{"key of a part", tool("approvers: [a]"), "t.yaml:5:5: tools.x.approvers: is not a key here; did you mean rule: {approvers: …}?"},
		{"case matters", tool("Server: t"), "t.yaml:5:5: tools.x.Server: is not a key here; did you mean server?"},
		{"no idea", tool("zzzzzz: 1"), "t.yaml:5:5: tools.x.zzzzzz: is not a key here; the keys are server, per_minute, read, timeout, rule, targets, key, limit"},
		{"twice", tool("server: t"), "t.yaml:5:5: tools.x.server: is given twice, first on line 4"},
		{"twice among names", "version: 1\ntools: {x: {server: s}, x: {server: t}}", "t.yaml:2:25: tools.x: is given twice, first on line 2"},
		{"later", tool("guards: {a: 1}"), "t.yaml:5:5: tools.x.guards: is not supported yet; remove the key"},
		{"a mapping of another form", tool("targets: {a: {kind: b}}"), "t.yaml:5:15: tools.x.targets.a: wants text; this is a mapping"},
		{"text for a number", tool(`per_minute: "3"`), "t.yaml:5:5: tools.x.per_minute: wants a whole number, 0 or more"},
		{"negative", tool(`per_minute: -3`), "t.yaml:5:5: tools.x.per_minute: wants a whole number, 0 or more"},
		{"octal", tool(`per_minute: 0o17`), "t.yaml:5:5: tools.x.per_minute: wants a whole number, 0 or more"},
		{"leading zero", tool(`per_minute: 017`), "t.yaml:5:5: tools.x.per_minute: wants a whole number, 0 or more"},
		{"huge", tool(`per_minute: 99999999999`), "t.yaml:5:5: tools.x.per_minute: wants a whole number, 0 or more"},
		{"yes is no boolean", tool(`read: yes`), "t.yaml:5:5: tools.x.read: wants true or false"},
		{"quoted boolean", tool(`read: "true"`), "t.yaml:5:5: tools.x.read: wants true or false"},
		{"True", tool(`read: True`), "t.yaml:5:5: tools.x.read: wants true or false"},
		{"duration", tool(`timeout: 20`), "t.yaml:5:5: tools.x.timeout: wants a duration such as 20s or 4h"},
		{"negative duration", tool(`timeout: -20s`), "t.yaml:5:5: tools.x.timeout: wants a duration such as 20s or 4h"},
		{"number for text", "version: 1\ntools: {x: {server: 12}}", "t.yaml:2:13: tools.x.server: wants text; write it in quotes"},
		{"boolean for text", "version: 1\ntools: {x: {server: true}}", "t.yaml:2:13: tools.x.server: wants text; write it in quotes"},
		{"empty text", "version: 1\ntools: {x: {server: ''}}", "t.yaml:2:13: tools.x.server: is empty; give a value or remove the key"},
		{"null", tool(`read:`), "t.yaml:5:5: tools.x.read: has no value; give one or remove the key"},
		{"null part", tool(`rule: ~`), "t.yaml:5:5: tools.x.rule: wants keys: when, approvers; this is empty"},
		{"list for text", "version: 1\ntools: {x: {server: [a]}}", "t.yaml:2:13: tools.x.server: wants text; this is a list"},
		{"text for a list", tool(`targets: a`), "t.yaml:5:5: tools.x.targets: wants a list, such as [a, b]; this is text"},
		{"text for names", "version: 1\ntools: x", "t.yaml:2:1: tools: wants names with a value each, such as {name: …}; this is text"},
		{"empty list", tool(`targets: []`), "t.yaml:5:5: tools.x.targets: is empty; list something or remove the key"},
		{"element", tool(`targets: [a, 3]`), "t.yaml:5:18: tools.x.targets[1]: wants text; write it in quotes"},
		{"choice", tool(`rule: {when: alway}`), "t.yaml:5:12: tools.x.rule.when: wants one of always, asked; did you mean always?"},
		{"own rule", tool("read: true\n    per_minute: 0"), "t.yaml:6:5: tools.x.per_minute: must be more than 0 here"},
		{"missing", "version: 1\ntools: {x: {read: true}}", "t.yaml:2:9: tools.x: needs the key server: Where it runs."},
		{"number that is too long", tool(`limit: 1234567`), "t.yaml:5:5: tools.x.limit: wants a short number"},
		{"a secret itself", tool(`key: hunter2`), "t.yaml:5:5: tools.x.key: wants a reference to a secret, env:NAME or file:PATH, never the secret itself"},
		{"empty file", "", "t.yaml: needs the key version"},
		{"only a comment", "# nothing\n", "t.yaml: needs the key version"},
		{"a list", "- a", "t.yaml:1: wants keys: version, files, tools; this is a list"},
		{"anchor", "version: &v 1\n", "t.yaml:1:10: anchors and aliases are not read; write the value out"},
		{"alias", "version: 1\nfiles: *v\n", "t.yaml:2:8: anchors and aliases are not read; write the value out"},
		{"merge key", "version: 1\ntools:\n  <<: {}\n", "t.yaml:3:3: merge keys (<<) are not read; write the keys out"},
		{"tag", "version: !!int 1\n", "t.yaml:1:10: tags are not read; write the plain value"},
		{"directive", "%YAML 1.1\n---\nversion: 1\n", "t.yaml:1:1: directives are not read; remove the line"},
		{"explicit key", "? version\n: 1\n", "t.yaml:1:1: explicit keys (?) are not read; write key: value"},
		{"two documents", "version: 1\n---\nversion: 2\n", "t.yaml:3: a second document starts here; one file is one document"},
		{"number as key", "version: 1\ntools: {1: {server: s}}", "t.yaml:2:9: tools.1: a key must be text; write it in quotes"},
		{"not UTF-8", "version: \xff", "t.yaml: is not UTF-8 text"},
		{"control character", "version: 1\nfiles: a\x1bb", "t.yaml:2: holds a control character; write it as an escape inside double quotes"},
		{"byte order mark", "\ufeffversion: 1", "t.yaml:1: holds a control character; write it as an escape inside double quotes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f sampleFile
			if got := Decode("t.yaml", []byte(c.src), &f).Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAllProblemsAreReportedInOrder(t *testing.T) {
	src := "version: one\nfile: a\ntools:\n  x: {per_min: 3, guards: {}}\n  y: {server: s, read: 1}\n"
	var f sampleFile
	ps := Decode("t.yaml", []byte(src), &f)
	var lines []string
	for _, p := range ps {
		lines = append(lines, fmt.Sprintf("%d %s", p.Line, p.Path))
	}
	want := "1 version|2 file|4 tools.x|4 tools.x.per_min|4 tools.x.guards|5 tools.y.read"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A syntax error says where; the parser's words may change, the place may not.
func TestSyntaxErrorsHaveAPlace(t *testing.T) {
	for _, src := range []string{"version: 1\ntools: {x: [}", "version: 1\n\tfiles: a", "version: 1\nfiles: 'a", "version: 1\n files: a\n"} {
		var f sampleFile
		ps := Decode("t.yaml", []byte(src), &f)
		if len(ps) == 0 {
			t.Errorf("%q was accepted", src)
			continue
		}
		if ps[0].Line != 2 && ps[0].Line != 1 {
			t.Errorf("%q: %v", src, ps)
		}
	}
}

func TestBounds(t *testing.T) {
	for name, src := range map[string]string{
		"large":    strings.Repeat("#", MaxBytes+1),
		"brackets": "version: " + strings.Repeat("[", 60_000),
		"braces":   "version: " + strings.Repeat("{a: ", 60_000),
		"dashes":   "version:\n" + strings.Repeat("- ", 60_000),
		"colons":   strings.Repeat("a: ", 60_000),
		"steps": func() string {
			var b strings.Builder
			for i := range 300 {
				b.WriteString(strings.Repeat(" ", i) + "a:\n")
			}
			return b.String()
		}(),
		"aliases": "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nversion: *c\n",
	} {
		t.Run(name, func(t *testing.T) {
			var f sampleFile
			start := time.Now()
			if ps := Decode("t.yaml", []byte(src), &f); len(ps) == 0 {
				t.Error("was accepted")
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"version: 1", "version: 1\ntools: {x: {server: s, read: true}}", "a: [b, {c: d}]",
		"version: &a 1\nb: *a", "- - - a", "? a\n: b", "version: |2-\n  a\n", "'a': \"\\u0041\"", "a:\n- b\n-  c:\n    d", "---\n...\n---", "[", "}", "a: !!x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var into sampleFile
		ps := Decode("t.yaml", src, &into)
		for _, p := range ps {
			if p.Message == "" || strings.ContainsAny(p.String(), "\x1b\x00") {
				t.Errorf("problem %q", p.String())
			}
		}
		if len(ps) == 0 && into.Version < 0 {
			t.Error("accepted a version below 0")
		}
	})
}
