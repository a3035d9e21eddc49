package llm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/record"
)

// forged are the findings that no honest client causes, by whatever it does to a
// history between two requests. The others that package history calls forgeries
// show in honest histories here: clients put results into words of their own, which
// makes another digest; and a conversation goes on after its run has ended.
var forged = []string{history.CodeDuplicateName, history.CodeCaseVariant, history.CodeForeignRole, history.CodeEditedArguments}

// reading is what was found in a history.
type reading struct {
	findings []history.Finding // without notes
	told     []dispatch.Told
	labels   map[string]bool // of calls of our tools
	hosted   bool            // it holds what tools brought that the provider ran itself
}

// read reads the history of a request and holds it to its grammar. A history that
// cannot be read is refused in every mode: what is sent is what was checked.
func (q *request) readHistory(n names) (*reading, *refusal) {
	format, limits := q.endpoint.dialect.format, history.Limits{Bytes: int64(len(q.body)) + 1, Message: len(q.body) + 1, Calls: 10_000, Findings: 100}
	t, report, err := history.ReadAndCheck(q.body, format, limits)
	if err != nil {
		return nil, surfaced(err)
	}
	if !report.Complete {
		f := report.Findings[len(report.Findings)-1]
		return nil, invalid("the history cannot be read: %s, at byte %d (%s)", f.Says, f.At.Offset, f.Code).as("history_refused")
	}
	q.history = t
	r := &reading{findings: slices.DeleteFunc(report.Findings, func(f history.Finding) bool { return f.Severity == history.Note })}
	r.told, r.labels = tell(t, n), map[string]bool{}
	for _, c := range r.told {
		r.labels[c.Label] = true
	}
	for i := range t.Items {
		r.hosted = r.hosted || i.Provider && (i.Kind == history.Result || i.Kind == history.Call || i.Kind == history.Marker && i.Type == "server-side")
	}
	return r, nil
}

// tell lists the calls of our tools that a history holds, and calls tools by their
// names in the registry from here on.
func tell(t *history.Transcript, n names) []dispatch.Told {
	var told []dispatch.Told
	for i := range t.Items {
		if i.Kind != history.Call && i.Kind != history.Result {
			continue
		}
		tool, ours := n.tool(i.Tool)
		if ours {
			i.Tool = tool
		}
		switch {
		case i.Provider || i.Again:
		case i.Kind == history.Call && ours && i.Server == "":
			told = append(told, dispatch.Told{Label: i.ID, Tool: tool, Digest: i.Digest})
		case i.Kind == history.Result:
			answered(told, i)
		}
	}
	return told
}

// answered marks the call that a result answers: the first open one of its label, or
// of its tool where there are no labels.
func answered(told []dispatch.Told, result *history.Item) {
	for k := range told {
		c := &told[k]
		if !c.Answered && c.Label == result.ID && (c.Label != "" || result.Tool == c.Tool) {
			c.Answered = true
			return
		}
	}
}

// ours asks the records for what they can hold: calls of our tools. What the user
// typed makes no difference here, and is not asked for.
type ours struct {
	history.Records
	labels map[string]bool
}

func (o ours) Labelled(ctx context.Context, label string) ([]history.Recorded, error) {
	if !o.labels[label] {
		return nil, nil
	}
	return o.Records.Labelled(ctx, label)
}

func (ours) Vouched(context.Context, canon.Digest) (bool, error) { return false, nil }

// compare is what comparing with the records of the run shows.
func (q *request) compare(ctx context.Context, r *reading, records history.Records, checked func(*history.Transcript, []history.Finding, *history.Classification)) (*reading, *refusal) {
	c, err := history.Classify(ctx, q.history, ours{records, r.labels})
	if err != nil {
		return nil, surfaced(record.Because(record.Unavailable, err, "the history cannot be compared with the records; nothing was sent"))
	}
	if checked != nil {
		checked(q.history, r.findings, c)
	}
	return &reading{findings: c.Findings}, nil
}

// verdict refuses what could only be forged, where the operator wants that.
func (q *request) verdict(r *reading) *refusal {
	if q.provider.History != Refuse {
		return nil
	}
	for _, f := range r.findings {
		if slices.Contains(forged, f.Code) {
			return invalid("the history was refused: %s (%s, at %s, message %d). Nothing was sent to the provider", f.Says, f.Code, place(f), f.Message).as("history_refused")
		}
	}
	return nil
}

// place is where a finding stands, without a word of what stands there.
func place(f history.Finding) string {
	if f.At.Pointer != "" {
		return f.At.Pointer
	}
	return fmt.Sprintf("byte %d", f.At.Offset)
}

// summary names what was found, for records.
func (r *reading) summary() string {
	var parts []string
	for _, f := range r.findings {
		if len(parts) == 10 {
			parts = append(parts, fmt.Sprintf("and %d more", len(r.findings)-10))
			break
		}
		parts = append(parts, f.Code+" at "+place(f))
	}
	return strings.Join(parts, ", ")
}
