package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/placet-dev/placet/history"
	"pgregory.net/rapid"
)

// lists and objects collect what can be changed in a document.
func collect(v any, lists *[]*[]any, objects *[]map[string]any, set func([]any)) {
	switch at := v.(type) {
	case map[string]any:
		*objects = append(*objects, at)
		for _, name := range slices.Sorted(maps.Keys(at)) {
			collect(at[name], lists, objects, func(l []any) { at[name] = l })
		}
	case []any:
		*lists = append(*lists, &at)
		for n := range at {
			collect(at[n], lists, objects, func(l []any) { at[n] = l })
		}
	}
}

// mutate makes one change: repeats, drops or swaps elements, gives a member the
// value that another has, or takes a member away.
func mutate(t *rapid.T, v any) any {
	var lists []*[]any
	var objects []map[string]any
	collect(v, &lists, &objects, nil)
	if rapid.Bool().Draw(t, "in a list") && len(lists) > 0 {
		l := *lists[rapid.IntRange(0, len(lists)-1).Draw(t, "list")]
		if len(l) > 1 {
			a, b := rapid.IntRange(0, len(l)-1).Draw(t, "a"), rapid.IntRange(0, len(l)-1).Draw(t, "b")
			if rapid.Bool().Draw(t, "swap") {
				l[a], l[b] = l[b], l[a]
			} else {
				l[a] = l[b] // what stood there is dropped, and another repeated
			}
		}
		return v
	}
	if len(objects) == 0 {
		return v
	}
	o := objects[rapid.IntRange(0, len(objects)-1).Draw(t, "object")]
	names := slices.Sorted(maps.Keys(o))
	if len(names) == 0 {
		return v
	}
	name := rapid.SampledFrom(names).Draw(t, "member")
	if rapid.Bool().Draw(t, "away") {
		delete(o, name)
		return v
	}
	other := objects[rapid.IntRange(0, len(objects)-1).Draw(t, "other")]
	if value, ok := other[name]; ok {
		switch value.(type) {
		case string, bool, float64, nil:
			o[name] = value
		}
	} else if _, ok := o[name].(string); ok {
		o[name] = rapid.SampledFrom([]string{"", "c1", "user", "assistant", "{}"}).Draw(t, "text")
	}
	return v
}

// TestMutations: rows of all formats with changes of every kind are read, reported
// and repaired to what each target accepts, or refused.
func TestMutations(t *testing.T) {
	all := rows(t)
	delete(all, "duplicate")
	names := slices.Sorted(maps.Keys(all))
	repaired := 0
	rapid.Check(t, func(t *rapid.T) {
		row := all[rapid.SampledFrom(names).Draw(t, "row")]
		var v any
		if err := json.Unmarshal(row.text, &v); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			v = mutate(t, v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := history.Read(text, row.Format, history.Limits{})
		if err != nil {
			return
		}
		target := rapid.SampledFrom(history.Writes()).Draw(t, "target")
		r, err := history.Repair(context.Background(), whole, target, history.NoRecords{})
		var refusal *history.Refusal
		if errors.As(err, &refusal) {
			return
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		repaired++
		after := mustRead(t, r.Source, target)
		if left := startable(after); len(left) > 0 {
			t.Fatalf("%v could be taken up\n%s\n%s", left, text, r.Source)
		}
		report, err := history.Check(bytes.NewReader(r.Source), target, history.Limits{})
		left := slices.DeleteFunc(codes(report), func(c string) bool {
			return c == history.CodeUnknownPart || c == history.CodeUnknownField || c == history.CodeUnseen || c == history.CodeCaseVariant ||
				c == history.CodeOrphanResult && report.Unseen
		})
		if err != nil || len(left) > 0 {
			t.Fatalf("%v is left (%s to %s)\n%s\n%s", left, row.Format, target, text, r.Source)
		}
		again, err := history.Repair(context.Background(), after, target, history.NoRecords{})
		if err != nil || len(again.Changes) > 0 {
			t.Fatalf("the repair is repaired: %v %+v\n%s\n%s", err, again, text, r.Source)
		}
		known := map[string]bool{}
		for i := range whole.Items {
			if i.Kind == history.Call {
				known[i.Tool+i.Digest.String()] = true
			}
		}
		for i := range after.Items {
			if i.Kind == history.Call && !known[i.Tool+i.Digest.String()] {
				t.Fatalf("the call %s was not there\n%s\n%s", i.Tool, text, r.Source)
			}
		}
	})
	if repaired == 0 {
		t.Error("nothing was repaired")
	}
}
