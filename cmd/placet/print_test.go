package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// Nothing that a terminal or a reader's eye would act on leaves a cell.
func TestHostileTextIsShownAsData(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                     "plain",
		"Ünïcode 表":                 "Ünïcode 表",
		"\x1b[2J":                   `\u001b[2J`,
		"a\nb\tc\r":                 `a\u000ab\u0009c\u000d`,
		"\u202edne":                 `\u202edne`,
		"zero\u200bwidth\ufeff":     `zero\u200bwidth\ufeff`,
		"c1 \u009b31m":              `c1 \u009b31m`,
		"bad \xff":                  `bad \xff`,
		"tag \U000e0041":            `tag \udb40\udc41`,
		"no-break\u00a0\u2028space": `no-break\u00a0\u2028space`,
	} {
		if got := safe(text); got != want {
			t.Errorf("safe(%q) is %q, want %q", text, got, want)
		}
	}
	if got := safeLines("one\n\x1btwo"); got != "one\n\\u001btwo" {
		t.Errorf("lines: %q", got)
	}
}

func TestTableKeepsItsRows(t *testing.T) {
	var out bytes.Buffer
	table := &table{head: []string{"A", "B"}}
	table.add("one\nforged row", "two\tthree")
	if err := table.write(&out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("%d lines:\n%s", got, out.String())
	}
}

func FuzzSafe(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b]0;x\a", "\u202e\u2066", "\xff\xfe", "\U000e0001", "a\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range safe(s) {
			if !unicode.IsPrint(r) {
				t.Fatalf("safe(%q) lets %U through", s, r)
			}
		}
		var line bytes.Buffer
		if err := writeJSON(&line, map[string]string{"text": s}); err != nil {
			t.Fatal(err)
		}
		for _, r := range strings.TrimSuffix(line.String(), "\n") {
			if !unicode.IsPrint(r) {
				t.Fatalf("JSON of %q lets %U through", s, r)
			}
		}
		var back map[string]string
		if err := json.Unmarshal(line.Bytes(), &back); err != nil || back["text"] != strings.ToValidUTF8(s, "\ufffd") && back["text"] != toValid(s) {
			t.Fatalf("JSON of %q reads back as %q, %v", s, back["text"], err)
		}
	})
}

// toValid is what encoding/json makes of a text: each bad byte on its own.
func toValid(s string) string { return string([]rune(s)) }

func FuzzEachData(f *testing.F) {
	f.Add("data: {}\n\n: \n\nid: 1\nevent: x\ndata: {\"seq\":1}\n\n")
	f.Add("data: a\ndata: b\n\ndata:c\n\ndata: unfinished")
	f.Add("data\n\n\n\nData: x\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		frames := strings.Count(stream, "data:")
		err := eachData(strings.NewReader(stream), func([]byte) error {
			frames--
			return nil
		})
		if err != nil || frames < 0 {
			t.Fatalf("%v, %d events too many", err, -frames)
		}
	})
}

func TestEachDataJoinsLinesAndLeavesUnfinishedEvents(t *testing.T) {
	var got []string
	err := eachData(strings.NewReader(": hi\n\nid: 1\ndata: a\ndata: b\n\ndata:c\n\ndata: unfinished"), func(d []byte) error {
		got = append(got, string(d))
		return nil
	})
	if want := "a\nb|c"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("%q, %v", got, err)
	}
}
