package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed testdata
var testdata embed.FS

// added are files that the chaos build has beside those of the module.
var added = map[string]string{
	"failpoint/failpoint.go": "testdata/failpoint/failpoint.go",
	"failing_chaos.go":       "testdata/failing.go",
}

// edit replaces a text that a file holds once. What no longer fits fails the build:
// a failpoint that is nowhere would find nothing.
type edit struct{ file, old, new string }

const failpointImport = "import (\n\t\"github.com/placet-dev/placet/failpoint\"\n"

// edits put failpoints at the durable steps, and the mutants where they break a
// promise. A mutant does nothing in a process that is not told to be it.
var edits = []edit{
	{"placet.go", "var records dispatch.Store = p.store\n", "var records dispatch.Store = failing{p.store}\n"},

	{"store/sqlite/writer.go", "import (\n", failpointImport},
	{"store/sqlite/writer.go", "\tif err := w.exec(\"COMMIT\"); err != nil {\n", "\tfailpoint.At(\"before commit\")\n\tif err := w.exec(\"COMMIT\"); err != nil {\n"},
	{"store/sqlite/writer.go", "\tw.publish()\n\tfor", "\tfailpoint.At(\"after commit\")\n\tw.publish()\n\tfor"},

	{"store/postgres/committer.go", "import (\n", failpointImport},
	{"store/postgres/committer.go", "\tw := newWrites()\n", "\tfailpoint.At(\"between round trips\")\n\tw := newWrites()\n"},
	{"store/postgres/committer.go", "\tw.send(b, c.origin)\n\tif err := c.conn.SendBatch(ctx, b).Close(); err != nil {\n\t\treturn true, err\n\t}\n",
		"\tw.send(b, c.origin)\n\tfailpoint.At(\"before commit\")\n\tif err := c.conn.SendBatch(ctx, b).Close(); err != nil {\n\t\treturn true, err\n\t}\n\tfailpoint.At(\"after commit\")\n"},

	// record_after_effect: the tool runs before its reservation is durable.
	{"dispatch/reserve.go", "import (\n", failpointImport},
	{"dispatch/reserve.go", "\tif err := b.apply(ctx, change); err != nil {\n\t\tswitch r := refusal(err); {\n",
		`	var early *Reached
	if failpoint.Mutant("record_after_effect") {
		c := change.Facts().Call.After
		r := b.reach(ctx, mint(b.work(e, c, credential, deadline, e.labelled(ctx, c, progress))))
		early = &r
	}
	if err := b.apply(ctx, change); err != nil {
		switch r := refusal(err); {
`},
	{"dispatch/reserve.go", "\tcall := change.Facts().Call.After\n\twork := b.work(", "\tcall := change.Facts().Call.After\n\tif early != nil {\n\t\treturn b.settle(ctx, e, call, *early)\n\t}\n\twork := b.work("},

	// repeat_unknown: what may have had its effect is sent again.
	{"dispatch/reserve.go", "\treturn b.invoke(ctx, e, call, ticket)\n",
		`	if a, err := b.invoke(ctx, e, call, ticket); !failpoint.Mutant("repeat_unknown") || a.Code != record.CodeOutcomeUnknown {
		return a, err
	}
	again := b.work(e, call, credential, time.Now().Add(e.tool.Timeout), nil)
	again.Secret = secret
	return b.invoke(ctx, e, call, mint(again))
`},
}

// build makes cmd/placet with failpoints in dir.
func build(ctx context.Context, root, dir string) (string, error) {
	replace := map[string]string{}
	write := func(name string, text []byte) error {
		to := filepath.Join(dir, "overlay", strings.ReplaceAll(name, "/", "_"))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		replace[filepath.Join(root, name)] = to
		return os.WriteFile(to, text, 0o600)
	}
	for name, from := range added {
		text, err := testdata.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := write(name, text); err != nil {
			return "", err
		}
	}
	edited, err := applied(root)
	if err != nil {
		return "", err
	}
	for name, text := range edited {
		if err := write(name, []byte(text)); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "placet")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-o", out, "./cmd/placet")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the build with failpoints: %w\n%s", err, text)
	}
	return out, nil
}

// applied is the edited files' text by name.
func applied(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range edits {
		text, ok := texts[e.file]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s holds %d times what chaos/build.go puts a failpoint at, and it must be once; mend the edit there:\n%s", e.file, n, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return texts, nil
}
