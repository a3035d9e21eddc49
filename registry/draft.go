package registry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Drafted is an entry that a person is to review.
type Drafted struct {
	Name  string // the name it would have here
	Offer Offer
	YAML  string // the entry, indented to stand below "tools:"
}

// Draft writes an entry for each offer of a server: tools that say of themselves
// that they only read may run, everything else asks. What a server says is a
// hint for the reviewer; the marks in the entry are what counts afterwards.
// taken reports names that are in use.
func Draft(server string, offers []Offer, taken func(name string) bool) []Drafted {
	used := map[string]bool{}
	var out []Drafted
	for _, o := range offers {
		name := draftName(server, o.Name, func(n string) bool { return used[n] || taken != nil && taken(n) })
		used[name] = true
		if o.Method == MethodTool {
			out = append(out, Drafted{name, o, draftEntry(server, name, o)})
		} else {
			out = append(out, Drafted{name, o, draftReading(server, name, o)})
		}
	}
	return out
}

// draftName makes a registry name of a server's own: lower-case, words joined by
// underscores, no dots since providers refuse them.
func draftName(server, upstream string, taken func(string) bool) string {
	words := regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(upstream, "${1}_${2}")
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9_-]+`).ReplaceAllString(strings.ToLower(words), "_"), "_-")
	if name == "" || name[0] < 'a' || name[0] > 'z' || strings.HasPrefix(name, "placet_") {
		name = "tool_" + name
	}
	name = name[:min(len(name), 56)]
	if taken(name) {
		longer := strings.ReplaceAll(server, ".", "_") + "_" + name
		name = longer[:min(len(longer), 56)]
	}
	for base, n := name, 2; taken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// hints are the MCP annotations that a draft looks at. An absent one is nil.
type hints struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
	OpenWorld   *bool `json:"openWorldHint"`
}

func said(b *bool) bool { return b != nil && *b }

func draftEntry(server, name string, o Offer) string {
	var h hints
	if err := json.Unmarshal(o.Annotations, &h); err != nil {
		h = hints{} // unreadable hints are no hints: the tool asks
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if words := oneLine(o.Title, o.Description); words != "" {
		line("  # The server says: %s", words)
	}
	line("  %s:", quoteKey(name))
	line("    server: %s", quoteKey(server))
	if o.Name != name {
		line("    tool: %s", quoteText(o.Name))
	}
	if said(h.ReadOnly) {
		line("    scope: %s:read                # REVIEW: the scope that the end user must have", server)
		line("    read: true                    # REVIEW: the server says so; make sure that it changes nothing")
		if said(h.OpenWorld) {
			line("    sink: true                    # it reaches beyond the server: a look-up can carry data out")
		}
		line("    retry: safe")
		for _, l := range draftGuards(o.InputSchema) {
			line("%s", l)
		}
		draftLabels(o, true, said(h.OpenWorld), line)
		return b.String()
	}
	line("    scope: %s:write               # REVIEW: the scope that the end user must have", server)
	if h.Destructive != nil && !*h.Destructive {
		line("    write: true                   # REVIEW: the server says that it only adds; otherwise destructive: true")
	} else {
		line("    destructive: true             # REVIEW: or write: true, if what it does can be undone")
	}
	if said(h.OpenWorld) {
		line("    sink: true                    # it reaches beyond the server and can carry data out")
	}
	line("    # financial: true             # REVIEW: if it moves money")
	draftLabels(o, false, said(h.OpenWorld), line)
	if said(h.Idempotent) {
		line("    # retry: idempotent           # REVIEW: only if the server honours idempotency keys")
	}
	line("    approval: {when: always}")
	for _, l := range draftGuards(o.InputSchema) {
		line("%s", l)
	}
	return b.String()
}

// draftReading writes the entry of a resource or a prompt. Either only reads, by the
// protocol, and what it returns is untrusted unless the entry says otherwise.
func draftReading(server, name string, o Offer) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if words := oneLine(o.Title, o.Description); words != "" {
		line("  # The server says: %s", words)
	}
	line("  %s:", quoteKey(name))
	line("    server: %s", quoteKey(server))
	if o.Method == MethodPrompt {
		line("    prompt: %s", quoteText(o.Name))
	} else {
		line("    resource: %s", quoteText(o.Name))
	}
	line("    scope: %s:read                # REVIEW: the scope that the end user must have", server)
	line("    read: true")
	line("    retry: safe")
	for _, l := range draftGuards(o.InputSchema) {
		line("%s", l)
	}
	if len(propertiesOf(o.InputSchema)) > 0 {
		line("    # completions of its arguments need an entry of their own: {server: %s, completes: %s, scope: …, read: true}", quoteKey(server), quoteKey(name))
	}
	line("    # results: {sensitive: true}  # REVIEW: if what it returns must not get out; it is untrusted in any case")
	return b.String()
}

// oneLine is a server's own words as a comment: one line, cut, nothing that
// could end the comment or draw on a terminal.
func oneLine(title, description string) string {
	text := strings.Join(strings.Fields(title+" "+description), " ")
	text = escapeUnprintable(strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > 120 {
		text = string(runes[:120]) + "…"
	}
	return text
}

// AddDrafts returns the text of a registry file with drafted entries added at
// the end of its tools. It changes nothing else, comments included. It fails for
// a file whose tools are not written one below the other.
func AddDrafts(file string, text []byte, drafts []Drafted) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	start := -1
	for i, l := range lines {
		if regexp.MustCompile(`^tools:\s*(#.*)?$`).MatchString(strings.TrimRight(l, "\r\n")) {
			start = i
		} else if strings.HasPrefix(l, "tools:") {
			return nil, fmt.Errorf("%s:%d: tools are written on one line; write one below the other, then add again", file, i+1)
		}
	}
	var entries strings.Builder
	for _, d := range drafts {
		entries.WriteString(d.YAML)
	}
	if start < 0 {
		head := string(text)
		if head != "" && !strings.HasSuffix(head, "\n") {
			head += "\n"
		}
		return []byte(head + "tools:\n" + entries.String()), nil
	}
	end := start + 1
	for i := start + 1; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == "" || lines[i][0] == '#' {
			continue
		}
		if lines[i][0] != ' ' {
			break
		}
		end = i + 1
	}
	before := strings.Join(lines[:end], "")
	if !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return []byte(before + entries.String() + strings.Join(lines[end:], "")), nil
}
