package dispatch

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// maxPreview bounds what is kept and shown of a dry run.
const maxPreview = 8 << 10

// preview makes the dry run that the entry names, once, when a question is opened: a
// support call, as the caller (rule C5). What it shows is for the approvers and decides
// nothing; where it cannot be made the question stays, and says so. nil: the entry
// names none. An error means that the record moved: start over.
func (b *Boundary) preview(ctx context.Context, e *evaluation) (*record.Preview, error) {
	d := e.tool.DryRun
	if d == nil {
		return nil, nil
	}
	out := &record.Preview{Tool: e.tool.Name, Code: record.CodeCannotDecide}
	if d.Tool != "" {
		out.Tool = d.Tool
	}
	tool, arguments, ok := e.tool.Preview(e.a.Registry, e.call.Arguments)
	if !ok {
		return out, nil
	}
	a, err := b.support(ctx, e, tool, arguments)
	if err != nil {
		return nil, err
	}
	if a.Call != nil {
		out.Call = a.Call.ID
	}
	switch {
	case a.Verdict != record.Allow:
		out.Code = a.Code
	case a.State() != record.Succeeded || a.IsError:
		out.Code = record.CodeFailed
	default:
		out.Code = record.CodeNone
		out.Text, out.Left = bounded(readText(a.Result), maxPreview)
	}
	return out, nil
}

// readText is what a person reads of a result: its texts, or else what it holds as JSON.
func readText(result json.RawMessage) string {
	content, _ := canon.Lookup(result, "content")
	var texts []string
	for block := range canon.Elements(content) {
		value, _ := canon.Lookup(block, "text")
		if text, ok := canon.Text(value); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "\n")
	}
	if value, ok := canon.Lookup(result, "structuredContent"); ok {
		return strings.ToValidUTF8(string(value), "\uFFFD")
	}
	return strings.ToValidUTF8(string(result), "\uFFFD")
}

// bounded cuts a text between characters, and says how many bytes it left out.
func bounded(text string, most int) (string, int) {
	if len(text) <= most {
		return text, 0
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], len(text) - most
}
