package yamlfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxBytes bounds a file. A registry of several thousand tools fits.
	MaxBytes = 8 << 20
	// maxNesting bounds how deep mappings and lists nest; no file of ours needs
	// half of it. It is checked on tokens, since the parser recurses.
	maxNesting = 40
)

// parse returns the file's one document, or nil for an empty file.
func parse(file string, src []byte) (node ast.Node, ps Problems) {
	whole := func(format string, args ...any) Problems {
		return Problems{{File: file, Message: fmt.Sprintf(format, args...)}}
	}
	if len(src) > MaxBytes {
		return nil, whole("is larger than %d bytes", MaxBytes)
	}
	if !utf8.Valid(src) {
		return nil, whole("is not UTF-8 text")
	}
	if i := strings.IndexFunc(string(src), unprintable); i >= 0 {
		line := 1 + strings.Count(string(src[:i]), "\n")
		return nil, Problems{{File: file, Line: line, Message: "holds a control character; write it as an escape inside double quotes"}}
	}
	// The parser is another's code and reads text that people and programs
	// write; a defect there must not end a running server on reload.
	defer func() {
		if r := recover(); r != nil {
			node, ps = nil, whole("cannot be read as YAML")
		}
	}()
	tokens := lexer.Tokenize(string(src))
	if p, ok := tooDeep(tokens); ok {
		p.File = file
		return nil, Problems{p}
	}
	if ps := refuseTokens(file, tokens); len(ps) > 0 {
		return nil, ps
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, Problems{syntaxProblem(file, err)}
	}
	return oneDocument(file, f)
}

func unprintable(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r == 0x7f || r == 0xFEFF || r >= 0x80 && r < 0xA0
}

// refuseTokens refuses what would make a file mean something that is not
// written where it is read: anchors, aliases, merge keys, tags, directives.
func refuseTokens(file string, tokens token.Tokens) Problems {
	var ps Problems
	at := func(t *token.Token, message string) {
		ps = append(ps, Problem{File: file, Line: t.Position.Line, Column: t.Position.Column, Message: message})
	}
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType:
			at(t, "anchors and aliases are not read; write the value out")
		case token.MergeKeyType:
			at(t, "merge keys (<<) are not read; write the keys out")
		case token.TagType:
			at(t, "tags are not read; write the plain value")
		case token.MappingKeyType:
			at(t, "explicit keys (?) are not read; write key: value")
		case token.DirectiveType:
			at(t, "directives are not read; remove the line")
		case token.InvalidType:
			at(t, "cannot be read as YAML here")
		}
		if len(ps) == 20 {
			break
		}
	}
	return ps
}

func syntaxProblem(file string, err error) Problem {
	p := Problem{File: file, Message: "cannot be read as YAML"}
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &at) {
		p.Message += ": " + cut(at.GetMessage())
		if t := at.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	return p
}

func oneDocument(file string, f *ast.File) (ast.Node, Problems) {
	var found ast.Node
	for _, d := range f.Docs {
		if d == nil || d.Body == nil {
			continue
		}
		if _, ok := d.Body.(*ast.CommentGroupNode); ok {
			continue
		}
		if found != nil {
			pos := d.Body.GetToken().Position
			return nil, Problems{{File: file, Line: pos.Line, Message: "a second document starts here; one file is one document"}}
		}
		found = d.Body
	}
	return found, nil
}

// tooDeep finds nesting beyond maxNesting by counting tokens, before anything
// recurses over them: open brackets, indicators that open a level within one
// line, and steps of indentation.
func tooDeep(tokens token.Tokens) (Problem, bool) {
	var indents []int
	brackets, onLine, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line && brackets == 0 && t.Type != token.CommentType {
			line, onLine = t.Position.Line, 0
			for len(indents) > 0 && indents[len(indents)-1] >= t.Position.Column {
				indents = indents[:len(indents)-1]
			}
			indents = append(indents, t.Position.Column)
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(0, brackets-1)
		case token.SequenceEntryType, token.MappingValueType:
			if brackets == 0 {
				onLine++
			}
		}
		if brackets+len(indents)+onLine > maxNesting {
			return Problem{Line: t.Position.Line, Message: fmt.Sprintf("nests deeper than %d levels", maxNesting)}, true
		}
	}
	return Problem{}, false
}
