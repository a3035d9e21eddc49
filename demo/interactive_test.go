package demo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// interactive plays the demo with decide as its person: it is called with each
// question that is shown, and the demo's folder.
func interactive(t *testing.T, ctx context.Context, o Options, decide func(ctx context.Context, q pending, folder string) error) played {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	var kept bytes.Buffer
	failed := make(chan error, 1)
	o.JSON, o.Interactive, o.Stdout = true, true, out
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	go func() {
		defer close(failed)
		for lines := bufio.NewScanner(io.TeeReader(in, &kept)); lines.Scan(); {
			var v struct{ Question *pending }
			err := json.Unmarshal(lines.Bytes(), &v)
			if err == nil && v.Question != nil {
				err = decide(ctx, *v.Question, folder)
			}
			if err != nil {
				failed <- err
				cancel()
			}
		}
	}()
	p := played{folder: folder}
	var bad bytes.Buffer
	o.Stderr = &bad
	p.code = Run(ctx, o)
	_ = out.Close() // a pipe's never fails
	for err := range failed {
		t.Error(err)
	}
	p.stdout, p.stderr = kept.String(), bad.String()
	p.gone(t)
	return p
}

// byToken answers with a token of lena's, signed with the demo's own key.
func byToken(words map[string]record.Word) func(context.Context, pending, string) error {
	return func(ctx context.Context, q pending, folder string) error {
		keys, err := filepath.Glob(filepath.Join(folder, "placet-demo-*", issuerFile))
		if err != nil || len(keys) != 1 {
			return fmt.Errorf("the demo's key is not found: %v %w", keys, err)
		}
		local, err := identity.LoadLocal(keys[0], rand.Reader, time.Now)
		if err != nil {
			return err
		}
		base, id, _ := strings.Cut(q.URL, "/console/approvals/")
		token, err := local.Sign(identity.TokenSpec{Audience: base + "/console", Subject: q.SignIn, Tenant: tenant, Groups: []string{leads}})
		if err != nil {
			return err
		}
		lena := &person{name: q.SignIn, base: base, http: newBearer(token)}
		if words[q.Step] == record.Yes {
			return lena.approve(ctx, record.ApprovalID(id))
		}
		var seen question
		if err := lena.must(ctx, "GET", "/v1/approvals/"+id, nil, &seen); err != nil {
			return err
		}
		return lena.must(ctx, "POST", "/v1/approvals/"+id+"/reject", map[string]string{"binding": seen.Binding}, nil)
	}
}

// wantDecided checks what the demo tells of a run in which people said this.
func (p played) wantDecided(t *testing.T, words map[string]record.Word) {
	t.Helper()
	if p.code != 0 || p.stderr != "" {
		t.Errorf("exit code %d, stderr: %s", p.code, p.stderr)
	}
	var effects []any
	want := map[string]string{"c2": "rejected", "e2": "rejected", "d": "rejected"}
	for _, q := range []string{"c", "e"} {
		if words[q] == record.Yes {
			effects = append(effects, q+"2")
			want[q+"2"] = ""
		}
	}
	if words["c"] == record.Yes {
		want["d"] = "already_done"
	}
	effects = append(effects, "g", "h3")
	steps, last := p.lines(t)
	seen := map[string]string{}
	for _, s := range steps {
		if name, ok := s["step"].(string); ok {
			seen[name], _ = s["code"].(string)
		}
	}
	for step, code := range want {
		if got, there := seen[step]; !there || got != code {
			t.Errorf("step %s came to %q, want %q", step, got, code)
		}
	}
	var ran []any
	all, _ := last["effects"].([]any)
	for _, e := range all {
		e, _ := e.(map[string]any)
		ran = append(ran, e["step"])
	}
	if !slices.Equal(ran, effects) || last["verified"] != true || last["expected"] != float64(len(effects)) {
		t.Errorf("the ledger holds the effects of %v, want those of %v; summary %v", ran, effects, last)
	}
	told, _ := last["decided"].([]any)
	if len(told) != 2 {
		t.Fatalf("decided: %v", told)
	}
	for i, step := range []string{"c", "e"} {
		answer := map[record.Word]string{record.Yes: "approved", record.No: "rejected"}[words[step]]
		if d, _ := told[i].(map[string]any); d["step"] != step || d["answer"] != answer || d["by"] != "lena" {
			t.Errorf("decided: %v, want %s %s by lena", d, step, answer)
		}
	}
}

// Whatever a person says on c and on e, the ledger holds that and no more.
func TestDemo_Interactive(t *testing.T) {
	for _, words := range []map[string]record.Word{
		{"c": record.Yes, "e": record.Yes}, {"c": record.No, "e": record.Yes},
	} {
		t.Run(fmt.Sprintf("c %s, e %s", words["c"], words["e"]), func(t *testing.T) {
			interactive(t, t.Context(), Options{testOnlyHaste: true}, byToken(words)).wantDecided(t, words)
		})
	}
}

// The links lead a person with nothing but a browser to the two answers.
func TestDemo_InteractiveInABrowser(t *testing.T) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("no Chromium is installed here: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to start as root with one
	}
	allocated, stop := chromedp.NewExecAllocator(t.Context(), options...)
	defer stop()
	browser, cancel := chromedp.NewContext(allocated)
	defer cancel()
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	words := map[string]record.Word{"c": record.Yes, "e": record.No}
	buttons := map[string]string{"c": "#approve", "e": "#reject"}
	interactive(t, t.Context(), Options{}, func(_ context.Context, q pending, _ string) error {
		ctx, done := context.WithTimeout(browser, time.Minute)
		defer done()
		if err := chromedp.Do(ctx, chromedp.Navigate(q.URL)); err != nil {
			return err
		}
		// The second question finds a gateway that has forgotten who signed in.
		for _, press := range []string{"#sign-in", fmt.Sprintf(`form:has(input[value="%s"]) button`, q.SignIn), buttons[q.Step]} {
			if _, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(press))); err != nil {
				return errors.Join(fmt.Errorf("step %s: press %s", q.Step, press), err)
			}
		}
		return nil
	}).wantDecided(t, words)
}

// An interrupt while the demo waits for a person ends it like any other.
func TestDemo_InteractiveCtrlC(t *testing.T) {
	folder, ended := alone(t, os.Interrupt, interactiveFlag)
	if ended.ExitCode() != 1 {
		t.Errorf("it ended with %v", ended)
	}
	played{folder: folder}.gone(t)
}
