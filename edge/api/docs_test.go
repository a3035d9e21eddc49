package api

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/placet-dev/placet/record"
)

func TestErrorTablesAreCurrent(t *testing.T) {
	const path = "../../docs/errors.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := section(t, text, "kinds", kindTable())
	want = section(t, want, "codes", codeTable(t))
	current(t, path, want)
}

func section(t *testing.T, text []byte, name, body string) []byte {
	t.Helper()
	begin, end := []byte("<!-- begin "+name+" -->\n"), []byte("<!-- end "+name+" -->")
	i, j := bytes.Index(text, begin), bytes.Index(text, end)
	if i < 0 || j < i {
		t.Fatalf("no section %q", name)
	}
	return slices.Concat(text[:i+len(begin)], []byte(body), text[j:])
}

func kindTable() string {
	var b strings.Builder
	b.WriteString("| kind | HTTP | JSON-RPC | exit |\n|---|---|---|---|\n")
	for _, k := range record.Kinds() {
		s := record.SurfaceOf(k)
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d |\n", k, s.HTTP, s.RPC, s.Exit)
	}
	return b.String()
}

// verdictOf is the verdict a code comes with where the code alone does not decide.
func verdictOf(c record.Code) record.Verdict {
	switch c {
	case record.CodePolicyAsks, record.CodeAboveLimit, record.CodeAlwaysAsks, record.CodeSourceNotShown, record.CodeNewQuestion,
		record.CodeEffectUnsettled, record.CodeRepeatAsks, record.CodeTaintedTarget:
		return record.RequiresApproval
	case record.CodeAlreadyDone, record.CodeOutcomeUnknown, record.CodeInProgress, record.CodeFailed, record.CodeLeased, record.CodeQueued:
		return record.Allow
	default:
		return record.Deny
	}
}

func codeTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| code | HTTP |\n|---|---|\n")
	for _, c := range codes(t) {
		statuses := []string{}
		for _, retry := range []bool{true, false} {
			for _, result := range []bool{true, false} {
				s := strconv.Itoa(surface(verdictOf(c), c, retry, result))
				if !slices.Contains(statuses, s) {
					statuses = append(statuses, s)
				}
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", c, strings.Join(statuses, " or "))
	}
	return b.String()
}

// codes reads the closed list of codes from record's source, so that none is forgotten.
func codes(t *testing.T) []record.Code {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../record/decision.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []record.Code
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "Code" || len(v.Values) != 1 {
			return true
		}
		lit, ok := v.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
			list = append(list, record.Code(s))
		}
		return true
	})
	if len(list) < 20 {
		t.Fatalf("found %d codes only", len(list))
	}
	return list
}

func TestDenialsNeverLookLikeSuccess(t *testing.T) {
	for _, c := range append(codes(t), record.CodeNone, "unheard_of") {
		for _, result := range []bool{false, true} {
			got := surface(record.Deny, c, false, result)
			switch c {
			case record.CodeOutcomeUnknown, record.CodeInProgress, record.CodeFailed:
				continue // facts about a call that was allowed; they come with no denial
			}
			if got < 400 {
				t.Errorf("deny with code %q answers %d", c, got)
			}
		}
	}
	if got := surface("no verdict", record.CodeNone, false, false); got != 403 {
		t.Errorf("an unknown verdict answers %d, want 403", got)
	}
}
