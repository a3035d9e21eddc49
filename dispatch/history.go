package dispatch

import (
	"context"
	"encoding/json"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/history"
	"github.com/placet-dev/placet/label"
	"github.com/placet-dev/placet/record"
)

// maxLabelled bounds what is looked at under one label of a history.
const maxLabelled = 64

// Records is what a history told in a run is compared with: emissions and calls of
// the run's lineage by the provider's label, the caller's occurrence or the call's
// own ID. The run is one that its caller was shown to own.
func (b *Boundary) Records(run record.Run) history.Records { return records{b, run} }

type records struct {
	b   *Boundary
	run record.Run
}

func (r records) Labelled(ctx context.Context, name string) ([]history.Recorded, error) {
	found, err := r.b.store.Labelled(ctx, r.run.Tenant, r.run.Lineage, name, maxLabelled)
	if err != nil {
		return nil, err
	}
	var out []history.Recorded
	for _, f := range found {
		switch {
		case f.Call != nil && f.Call.Owner == r.run.Owner:
			out = append(out, recordedCall(*f.Call))
		case f.Call == nil && f.Emission != nil && f.Emission.Owner == r.run.Owner:
			out = append(out, history.Recorded{Run: f.Emission.Run, Tool: f.Emission.Tool, Digest: f.Emission.Digest,
				Witnessed: f.Emission.Counts(f.Run, r.b.clock(), r.b.limits.CallExpires)})
		}
	}
	return out, nil
}

// recordedCall is what a call's record says to a history. The digest is that of the
// proposal, which is what a model wrote (rule G3).
func recordedCall(c record.Call) history.Recorded {
	out := history.Recorded{Call: c.ID, Run: c.Run, Tool: c.Tool.Name, Digest: c.Digest, State: c.State}
	if !c.Received.IsZero() {
		out.Digest = c.Received
	}
	if o := c.Outcome; o != nil {
		out.Result, out.Failed = o.Text, o.IsError
		if text, ok := resultText(o.Result); ok {
			out.Answer, out.Result = text, history.TextDigest(text)
		}
	}
	return out
}

func (r records) Vouched(ctx context.Context, digest canon.Digest) (bool, error) {
	const page = 500
	for after := int64(0); ; {
		materials, err := r.b.store.Materials(ctx, r.run.Tenant, r.run.Lineage, after, r.run.Opened, page)
		if err != nil {
			return false, err
		}
		for _, m := range materials {
			after = m.Seq
			var typed label.Typed
			if m.Kind != label.KindTyped || json.Unmarshal(m.Body, &typed) != nil {
				continue
			}
			if typed.Run == r.run.ID && typed.Principal == r.run.Principal && history.TextDigest(typed.Text) == digest {
				return true, nil
			}
		}
		if len(materials) < page {
			return false, nil
		}
	}
}

// resultText is the text of a result that is exactly one, as clients hand it to
// their models.
func resultText(result json.RawMessage) (string, bool) {
	if len(result) == 0 {
		return "", false
	}
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil || len(r.Content) != 1 || r.Content[0].Type != "text" {
		return "", false
	}
	return r.Content[0].Text, true
}

// textDigest is the digest that a history's result is compared with; zero: the result
// is not one text.
func textDigest(result json.RawMessage) canon.Digest {
	text, ok := resultText(result)
	if !ok {
		return canon.Digest{}
	}
	return history.TextDigest(text)
}
