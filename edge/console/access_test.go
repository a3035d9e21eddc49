package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/placet-dev/placet/identity"
)

// faults lists what of a page keeps people out: controls without a name, tables and
// headings without order, text too faint to read (WCAG 2.2, 1.4.3: 4.5 to 1).
const faults = `(() => {
  const out = [];
  const shown = (e) => e.checkVisibility() && e.getClientRects().length > 0;
  const what = (e) => e.outerHTML.slice(0, 120);
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (![...(e.labels || [])].some((l) => l.textContent.trim()) && !e.getAttribute("aria-label")) out.push("no label: " + what(e));
  for (const e of document.querySelectorAll("a[href], button, summary"))
    if (!e.textContent.trim()) out.push("no text: " + what(e));
  if (document.querySelectorAll("h1").length != 1) out.push(document.querySelectorAll("h1").length + " main headings");
  if (document.querySelectorAll("main").length != 1 || !document.documentElement.lang || !document.title) out.push("no main, language or title");
  for (const e of document.querySelectorAll("th")) if (!e.scope) out.push("no scope: " + what(e));
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) != ids.lastIndexOf(id)) out.push("twice: " + id);
  const rgb = (c) => { const m = c.match(/[\d.]+/g).map(Number); return { c: m.slice(0, 3), a: m.length > 3 ? m[3] : 1 }; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const g = rgb(getComputedStyle(e).backgroundColor); if (g.a == 1) return g.c; } return matchMedia("(prefers-color-scheme: dark)").matches ? [13, 17, 23] : [255, 255, 255]; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || seen.has(e) || !shown(e)) continue;
    seen.add(e);
    const a = light(rgb(getComputedStyle(e).color).c), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) out.push("faint (" + ratio.toFixed(1) + "): " + what(e));
  }
  for (const e of document.querySelectorAll("button, a.button, input:not([type=hidden]):not([type=checkbox]), textarea"))
    if (shown(e) && e.getBoundingClientRect().height < 24) out.push("too small to touch: " + what(e));
  return out;
})()`

// focused is where the keyboard is, and whether one sees it.
const focused = `(() => { const e = document.activeElement, s = getComputedStyle(e); return [e.tagName + (e.id ? "#" + e.id : "") , s.outlineStyle != "none" && parseFloat(s.outlineWidth) >= 2 ? "seen" : "unseen"].join(" "); })()`

// Every page, in the light and in the dark, on a desk and on a phone: controls have
// names, headings and tables their order, text is readable, and nothing is wider than
// its window.
func TestBrowserEveryPageIsAccessible(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	lead := w.browser()
	lead.answers(a.Approval, "approve", lead.signIn("lena", "/console/approvals/"+a.Approval), "note", "fine by me").want(t, 200)
	w.back("anna", a)
	open := w.agent("anna", "refund", strings.Replace(refund1200, "1200", "4800", 1))
	w.agent("anna", "anything", `{"title":"one more"}`)
	w.agent("otto", "anything", `{"title":"his own"}`)
	for _, look := range []struct {
		name          string
		width, height int64
		before        []chromedp.Action[chromedp.Void]
	}{{"", 1000, 900, nil}, {"-dark", 1000, 900, []chromedp.Action[chromedp.Void]{dark}}, {"-phone", 360, 740, nil}, {"-phone-dark", 360, 740, []chromedp.Action[chromedp.Void]{dark}}} {
		if os.Getenv("PLACET_SHOTS") == "" && (look.name == "-dark" || look.name == "-phone") {
			continue // the other two have each of the widths and each of the colours
		}
		t.Run("look"+look.name, func(t *testing.T) {
			b := w.tab(t, look.width, look.height, look.before...)
			check := func(name, path string) {
				t.Helper()
				b.open(path)
				for _, fault := range js[[]string](b, faults) {
					t.Errorf("%s: %s", path, fault)
				}
				b.shot("page-" + name + look.name)
			}
			check("sign-in", "/console")
			b.known("lena")
			check("inbox", "/console")
			check("inbox-settled", "/console?state=settled&tool=refund")
			check("question", "/console/approvals/"+open.Approval)
			check("question-done", "/console/approvals/"+a.Approval)
			check("run", "/console/runs/"+open.Run)
			check("nothing", "/console/approvals/apr_none")
			b.known("otto")
			check("agents", "/console/agents")
			check("calls", "/console/calls")
			check("call", "/console/calls/"+a.ID)
			check("tools", "/console/tools")
			check("limits", "/console/limits")
		})
	}
}

// By keyboard alone: the first stop leads to the page, every stop is seen, and the
// answer is reached and given.
func TestBrowserKeyboard(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 1000, 900)
	b.known("lena")
	b.open("/console/approvals/" + a.Approval)
	stops := []string{}
	for range 40 {
		b.do(chromedp.KeyEvent("\t"))
		stop := js[string](b, focused)
		stops = append(stops, stop)
		if !strings.HasSuffix(stop, " seen") {
			t.Errorf("the keyboard is somewhere unseen: %v", stops)
		}
		if stop == "BUTTON#approve seen" {
			break
		}
	}
	if stops[0] != "A seen" || !strings.Contains(strings.Join(stops, ","), "TEXTAREA#note seen,BUTTON#reject seen,BUTTON#approve seen") {
		t.Fatalf("stops: %v", stops)
	}
	if _, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent("\r")); err != nil {
		t.Fatal(err)
	}
	b.says("approved by you")
	w.back("anna", a)
	w.wantEffects(t, effect1200)
}

// Names, purposes, notes and what tools return are as hostile as arguments, and as
// harmless on every page that shows them.
func TestBrowserHostileNames(t *testing.T) {
	w := newWorld(t)
	const subject, agent = `<img src=x onerror="document.title='owned'">anna`, "supp\u043ert-bot</bdi><script>document.title='owned'</script>"
	token, err := w.local.Sign(identity.TokenSpec{Audience: w.url + "/mcp", Subject: subject, Tenant: "dev", Agent: agent, Scopes: []string{"work"}})
	if err != nil {
		t.Fatal(err)
	}
	purpose := "\u202eesrever\n</div><form action=https://evil.example><button>Approve</button></form> \u200b" + strings.Repeat("very ", 150) + "long"
	body, err := json.Marshal(map[string]any{"tool": "echo", "purpose": purpose, "arguments": map[string]any{
		"title": "it\" for nobody.\nApproved by lena. Do \"", "html": "</bdi></main><h1>Approved</h1><a href=https://evil.example>x</a>", "odd": "a\u202eb\u200bc", "deep": []any{[]any{[]any{"<b>"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	a := w.sendAs(token, "/v1/calls", string(body))
	again := func() answer { return w.sendAs(token, "/v1/calls/"+a.ID+"/dispatch", "") }
	lead := w.browser()
	page := lead.signIn("lena", "/console/approvals/"+a.Approval)
	b, reader := w.tab(t, 1000, 900), w.tab(t, 360, 740)
	b.known("lena")
	reader.known("otto")
	shots := 0
	harmless := func(b *tab, path string, says ...string) {
		t.Helper()
		b.open(path)
		js[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true) ?? true`)
		if n := js[int](b, `document.querySelectorAll("main script, main img, main iframe, main h1 h1, [action^=https], [href^=https]").length`); n != 0 {
			t.Errorf("%s: %d elements of somebody else's", path, n)
		}
		if h, buttons := js[int](b, `document.querySelectorAll("h1").length`), js[int](b, `document.querySelectorAll("#approve").length`); h != 1 || buttons > 1 {
			t.Errorf("%s: %d headings, %d buttons", path, h, buttons)
		}
		if bad := js[string](b, `document.title + document.body.innerText`); strings.HasPrefix(bad, "owned") || strings.ContainsAny(bad, "\u202e\u200b") {
			t.Errorf("%s: %q", path, bad)
		}
		b.says(says...)
		shots++
		b.shot(fmt.Sprintf("hostile-names-%d", shots))
	}
	harmless(b, "/console", `<img src=x onerror="document.title='owned'">anna`, "suppо⟦U+043E⟧rt-bot</bdi><script>")
	harmless(b, "/console/approvals/"+a.Approval, `Do "it\" for nobody.\nApproved by lena. Do \"" for them`, "⟦U+202E right-to-left override⟧esrever↵", "</div><form action=", "more characters")
	harmless(b, "/console/runs/"+a.Run, "suppо⟦U+043E⟧rt-bot")
	lead.answers(a.Approval, "approve", page, "note", "</li><script>alert(1)</script>\u202eon").want(t, 200)
	again()
	harmless(b, "/console/approvals/"+a.Approval, "</li><script>alert(1)</script>⟦U+202E right-to-left override⟧on")
	harmless(reader, "/console/calls/"+a.ID, "What the tool returned", "</main><h1>Approved</h1>", "⟦U+202E right-to-left override⟧")
	harmless(reader, "/console/calls", "suppо⟦U+043E⟧rt-bot")
	harmless(reader, "/console?for="+url.QueryEscape(`"><script>document.title="owned"</script>`))
	if got := w.effects(); len(got) != 1 || !strings.HasPrefix(got[0], "echo ") {
		t.Errorf("effects %q", got)
	}
	if got := fmt.Sprint(again().State); got != "succeeded" {
		t.Errorf("once more: %s", got)
	}
}
