package audit_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/record"
)

// TestRule_J4_TamperedStore changes the real file of a store and exports it. Whatever
// was changed is told; the same file untouched verifies.
func TestRule_J4_TamperedStore(t *testing.T) {
	for name, c := range map[string]struct {
		sql  string
		want audit.Fault
	}{
		"edit":           {`UPDATE events SET body = replace(body, 'subject-4', 'subject-5') WHERE seq = 5`, audit.Changed},
		"edit of a time": {`UPDATE events SET at = at + 1 WHERE seq = 5`, audit.Changed},
		"edit of who":    {`UPDATE events SET who = '{"system":"other"}' WHERE seq = 5`, audit.Changed},
		"other tenant":   {`UPDATE events SET tenant = 'globex' WHERE seq = 5`, audit.Changed},
		"reorder": {`UPDATE events SET seq = 1000 WHERE seq = 5; UPDATE events SET seq = 5 WHERE seq = 7;
			UPDATE events SET seq = 7 WHERE seq = 1000`, audit.Changed},
		"missing middle": {`DELETE FROM events WHERE seq = 15`, audit.Missing},
		"missing end":    {`DELETE FROM events WHERE seq > 25`, audit.Missing},
		"replaced": {`DELETE FROM events WHERE seq = 5;
			INSERT INTO events SELECT 5, at, tenant, kind, run, call, approval, who, body FROM events WHERE seq = 6`, audit.Changed},
		"missing with its checkpoint": {`DELETE FROM events WHERE seq BETWEEN 11 AND 20; DELETE FROM checkpoints WHERE size = 20`, audit.Reordered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, 10)
			kept := w.head()
			if got, err := w.verify(w.export(audit.Export{}), kept); err != nil || got.Events != 30 || got.Checkpoints != 3 {
				t.Fatalf("untouched, it does not verify: %+v %v", got, err)
			}
			w.tamper(c.sql)
			if _, err := w.verify(w.export(audit.Export{}), kept); faultOf(err) != c.want {
				t.Fatalf("it is told as %v, want %s", err, c.want)
			}
		})
	}
}

// TestRule_J4_TruncatedAndForked: whoever has the store and its key can cut the log off
// and go on, and only what lies outside of it tells.
func TestRule_J4_TruncatedAndForked(t *testing.T) {
	w := newWorld(t, 3, 10)
	outside := filepath.Join(t.TempDir(), "kept.jsonl")
	w.write(10, audit.File{Path: outside})
	kept, err := os.ReadFile(outside)
	if err != nil {
		t.Fatal(err)
	}
	since, err := audit.Checkpoints(kept)
	if err != nil || len(since) != 1 {
		t.Fatal(since, err)
	}
	if got, err := w.verify(w.export(audit.Export{}), since...); err != nil || got.Known != 1 {
		t.Fatal(got, err)
	}
	w.tamper(`DELETE FROM events WHERE seq > 20`, `DELETE FROM checkpoints WHERE size > 20`)
	cut := w.export(audit.Export{})
	if _, err := w.verify(cut); err != nil {
		t.Fatalf("alone it is consistent: %v", err)
	}
	if _, err := w.verify(cut, since...); faultOf(err) != audit.Truncated {
		t.Fatalf("the truncated log: %v", err)
	}
	w.write(40)
	forked := w.export(audit.Export{})
	if _, err := w.verify(forked); err != nil {
		t.Fatalf("alone it is consistent: %v", err)
	}
	if _, err := w.verify(forked, since...); faultOf(err) != audit.Forked {
		t.Fatalf("the forked log: %v", err)
	}
}

// TestRule_J4_ResignedLog: another history under another key is not this log's, and a
// server with the log's key does not go on with it.
func TestRule_J4_ResignedLog(t *testing.T) {
	w := newWorld(t, 2, 10)
	kept, other := w.head(), newKey(t, "log.test")
	w.tamper(`UPDATE events SET body = replace(body, 'subject-4', 'subject-5')`, `DELETE FROM checkpoints`, `DELETE FROM log_tiles`)
	if err := w.sealer(other).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (audit.Export{}).WriteTo(t.Context(), &out, w.s, other.Public()); err != nil {
		t.Fatal(err)
	}
	if got, err := audit.Verify(bytes.NewReader(out.Bytes()), nil, nil); err != nil || !got.OwnKey {
		t.Fatalf("by its own word it is whole: %v", err)
	}
	if _, err := w.verify(out.Bytes()); faultOf(err) != audit.Unsigned {
		t.Fatalf("by the log's key: %v", err)
	}
	if _, err := audit.Verify(bytes.NewReader(out.Bytes()), nil, []string{kept}); faultOf(err) != audit.Unsigned {
		t.Fatalf("by what was kept: %v", err)
	}
	if _, err := audit.NewSealer(t.Context(), audit.Options{Log: w.s, Apply: w.s.Apply, Key: w.key}); record.KindOf(err) != record.Invalid {
		t.Fatalf("the log's own server goes on with it: %v", err)
	}
}

// TestRule_J4_TamperedExport changes an export and leaves the store alone.
func TestRule_J4_TamperedExport(t *testing.T) {
	w := newWorld(t, 3, 10)
	lines := strings.Split(strings.TrimSuffix(string(w.export(audit.Export{})), "\n"), "\n")
	if len(lines) != 1+30+3 {
		t.Fatalf("%d lines", len(lines))
	}
	kept := w.head()
	edit := func(n int, from, to string) func([]string) []string {
		return func(l []string) []string { l[n] = strings.Replace(l[n], from, to, 1); return l }
	}
	cut := func(from, to int) func([]string) []string {
		return func(l []string) []string { return slices.Delete(l, from, to) }
	}
	leaf := tlog.RecordHash([]byte(lines[5])).String()
	for name, c := range map[string]struct {
		change func([]string) []string
		want   audit.Fault
	}{
		"edit":                    {edit(5, "subject-", "subject_"), audit.Changed},
		"salt":                    {edit(5, `{"salt":"`, `{"salt":"0`), audit.Changed},
		"white space":             {edit(5, `{"salt"`, `{ "salt"`), audit.Changed},
		"swap":                    {func(l []string) []string { l[5], l[7] = l[7], l[5]; return l }, audit.Reordered},
		"cut middle":              {cut(5, 6), audit.Missing},
		"cut a checkpoint's span": {cut(12, 23), audit.Reordered},
		"cut a checkpoint":        {cut(11, 12), audit.Reordered},
		"cut the end":             {cut(23, 34), audit.Missing},
		"cut the end, and say so": {func(l []string) []string { return edit(0, `"size":30`, `"size":20`)(l)[:23] }, audit.Truncated},
		"cut the last checkpoint": {cut(33, 34), audit.Missing},
		"twice":                   {func(l []string) []string { return slices.Insert(l, 6, l[5]) }, audit.Reordered},
		"event beside a hash":     {edit(5, `{`, `{"leaf":"`+leaf+`",`), audit.Malformed},
		"event as a hash alone":   {func(l []string) []string { l[5] = `{"leaf":"` + leaf + `"}`; return l }, ""},
		"another's event":         {edit(0, `"size":30`, `"tenant":"acme","size":30`), audit.Changed},
		"unknown member":          {edit(11, `{`, `{"note":1,`), audit.Malformed},
		"signature":               {edit(11, "epoch 1", "epoch 2"), audit.Unsigned},
		"nothing":                 {cut(0, 34), audit.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.verify([]byte(strings.Join(c.change(slices.Clone(lines)), "\n")+"\n"), kept)
			if faultOf(err) != c.want || (err == nil) != (c.want == "") {
				t.Fatalf("it is told as %v, want %q", err, c.want)
			}
		})
	}
}

// TestRule_J4_TenantExport: a tenant sees its own events and of others the salted
// hashes alone; it verifies, from the beginning and from a checkpoint on.
func TestRule_J4_TenantExport(t *testing.T) {
	w := newWorld(t, 2, 300)
	acme := record.TenantID("acme")
	own := w.export(audit.Export{Tenant: &acme})
	if bytes.Contains(own, []byte("globex")) || !bytes.Contains(own, []byte(`"tenant":"acme"`)) {
		t.Fatal("it shows what is another tenant's, or not its own")
	}
	if got, err := w.verify(own, w.head()); err != nil || got.Events != 300 || got.Hidden != 300 {
		t.Fatalf("%+v %v", got, err)
	}
	first, err := w.s.Checkpoints(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	rest := w.export(audit.Export{Tenant: &acme, After: first[0].Size})
	if got, err := w.verify(rest, first[0].Note); err != nil || got.From != 300 || got.Events != 150 || got.Size != 600 {
		t.Fatalf("from a checkpoint on: %+v %v", got, err)
	}
	// What it goes on from is not believed either.
	var h map[string]any
	head, body, _ := bytes.Cut(rest, []byte("\n"))
	if err := json.Unmarshal(head, &h); err != nil {
		t.Fatal(err)
	}
	edge := h["base"].(map[string]any)["edge"].([]any)
	edge[0], edge[1] = edge[1], edge[0]
	if head, err = json.Marshal(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.verify(slices.Concat(head, []byte("\n"), body)); faultOf(err) != audit.Changed {
		t.Fatalf("another edge: %v", err)
	}
}

// TestRule_J4_Receipts: an event with its proof verifies offline, and nothing else does.
func TestRule_J4_Receipts(t *testing.T) {
	w := newWorld(t, 3, 7)
	w.write(300)
	events, err := w.s.Logged(t.Context(), 0, 1<<62, 1000)
	if err != nil || len(events) != 321 {
		t.Fatal(len(events), err)
	}
	receipt := func(events ...record.Event) []byte {
		t.Helper()
		r, err := audit.Receipts(t.Context(), w.s, w.key.Public(), events)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(r, "", "  ") // as whoever keeps it may write it
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	got, at, err := audit.VerifyReceipt(receipt(events...), w.key.Verifiers())
	if err != nil || len(got) != len(events) || at.Size != 321 || got[9].Seq != events[9].Seq || !bytes.Equal(got[9].Body, events[9].Body) {
		t.Fatalf("%d %v", len(got), err)
	}
	changed := events[9]
	changed.Kind = record.EventLate
	if _, _, err := audit.VerifyReceipt(receipt(changed), w.key.Verifiers()); faultOf(err) != audit.Changed {
		t.Fatalf("a changed event: %v", err)
	}
	for _, edit := range [][2]string{{`"leaf": 9`, `"leaf": 8`}, {`subject-2`, `subject-3`}, {`"seq": 10`, `"seq": 11`}, {`epoch 1`, `epoch 3`}} {
		text := receipt(events[9])
		edited := bytes.Replace(text, []byte(edit[0]), []byte(edit[1]), 1)
		if bytes.Equal(text, edited) {
			t.Fatalf("%s is not in it", edit[0])
		}
		if _, _, err := audit.VerifyReceipt(edited, w.key.Verifiers()); err == nil {
			t.Fatalf("%s verifies as %s", edit[0], edit[1])
		}
	}
	if _, _, err := audit.VerifyReceipt(receipt(events[0]), newKey(t, "log.test").Verifiers()); faultOf(err) != audit.Unsigned {
		t.Fatalf("with another key: %v", err)
	}
	// One that is not sealed yet is told so.
	if err := w.s.Apply(t.Context(), something("x", "acme", w.at)); err != nil {
		t.Fatal(err)
	}
	next, err := w.s.Logged(t.Context(), 321, 1<<62, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Receipts(t.Context(), w.s, w.key.Public(), next); record.KindOf(err) != record.Conflict {
		t.Fatalf("an event that is not sealed: %v", err)
	}
}

// TestRule_J4_DamagedHashes: a sealer does not build on hashes that are not its log's.
func TestRule_J4_DamagedHashes(t *testing.T) {
	w := newWorld(t, 2, 300)
	w.tamper(`UPDATE log_tiles SET data = zeroblob(length(data)) WHERE level = 0 AND n = 2`)
	if err := w.s.Apply(t.Context(), something("x", "acme", w.at)); err != nil {
		t.Fatal(err)
	}
	if err := w.sealer(w.key).Step(t.Context()); record.KindOf(err) != record.Internal {
		t.Fatalf("it was sealed: %v", err)
	}
	if c, err := w.s.Head(t.Context()); err != nil || c.Size != 600 {
		t.Fatalf("%d %v", c.Size, err)
	}
}

func FuzzVerify(f *testing.F) {
	key := newKey(f, "log.test")
	f.Add([]byte(`{"placet_export":1,"origin":"log.test","key":"` + key.Public() + `","size":0}` + "\n"))
	f.Add([]byte(`{"placet_export":1,"origin":"x","key":"x","size":1,"base":{"size":1,"edge":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],"checkpoint":"x"}}`))
	f.Add([]byte(`{"placet_receipt":1,"key":"` + key.Public() + `","checkpoint":"log.test\n1\n","entries":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := audit.Verify(bytes.NewReader(text), key.Verifiers(), nil)
		if err == nil && (got.Events != 0 || got.Hidden != 0) {
			t.Fatalf("leaves that nobody signed: %+v", got)
		}
		if _, _, err := audit.VerifyReceipt(text, key.Verifiers()); err == nil {
			t.Fatal("a receipt that nobody signed")
		}
	})
}
