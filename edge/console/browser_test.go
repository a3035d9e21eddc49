package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/issuer"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/yamlfile"
)

// chrome is the one real browser of these tests; nil: none is installed here.
var chrome context.Context

func TestMain(m *testing.M) { os.Exit(withChrome(m)) }

func withChrome(m *testing.M) int {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox) // it refuses to start as root with one
		}
		allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
		defer stop()
		ctx, cancel := chromedp.NewContext(allocated)
		defer cancel()
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
			fmt.Fprintln(os.Stderr, "Chromium does not start:", err)
			return 1
		}
		chrome = ctx
		break
	}
	return m.Run()
}

// tab is a person at a real browser, with cookies of their own.
type tab struct {
	t   testing.TB
	w   *world
	ctx context.Context
}

func (w *world) tab(t *testing.T, width, height int64, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	if chrome == nil {
		t.Skip("no Chromium is installed here: apt-get install chromium")
	}
	ctx, cancel := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t, w, ctx}
	b.do(chromedp.Navigate("about:blank")) // what runs first is not to be timed out: it makes the tab
	b.ctx, cancel = context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(cancel)
	b.do(chromedp.EmulateViewport(width, height))
	b.do(before...)
	return b
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.w.url + path)) }

// press clicks what leads to another page, and waits for it.
func (b *tab) press(selector string) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.t.Fatalf("%s: %v\n%s", selector, err, b.text())
	}
}

// as signs in, from a page that asks for it.
func (b *tab) as(user string) {
	b.t.Helper()
	b.press("#sign-in")
	b.press(fmt.Sprintf(`form:has(input[value="%s"]) button`, user))
}

// known is as, without the pages between: for tests that are not about them.
func (b *tab) known(user string) {
	b.t.Helper()
	person := b.w.browser()
	person.signIn(user, "/console")
	u, err := url.Parse(b.w.url)
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{Name: "placet-session-" + u.Port(), Value: person.cookie(), URL: b.w.url})
		return chromedp.Void{}, err
	})
}

func js[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *tab) text() string {
	b.t.Helper()
	return js[string](b, `document.body.innerText`)
}

func (b *tab) says(parts ...string) {
	b.t.Helper()
	text := b.text()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.t.Errorf("the page does not say %q:\n%s", part, text)
		}
	}
}

// until waits for the page to say something by itself.
func (b *tab) until(part string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(b.text(), part) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("the page never said %q:\n%s", part, b.text())
		}
	}
}

// shot keeps a picture where PLACET_SHOTS names a folder, for people to look at.
// It fails for a page that is wider than its window.
func (b *tab) shot(name string) {
	b.t.Helper()
	if over := js[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		b.t.Errorf("%s: the page is %d pixels wider than its window", name, over)
	}
	dir := os.Getenv("PLACET_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func noScripts(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return chromedp.Void{}, err
}

func dark(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	return chromedp.Void{}, err
}

const effect1200 = `refund {"amount":"1200.00","currency":"EUR","order_id":"ord_1001"}`

// From a link to one effect: sign-in, inbox, question, yes, and a page that tells
// by itself how it ended.
func TestBrowserApprove(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 1000, 900)
	b.open("/console")
	b.says("Sign in at")
	b.shot("sign-in")
	b.as("lena")
	b.says("1 waiting for you", "1200.00")
	if title := js[string](b, `document.title`); title != "(1) Questions · Placet" {
		t.Errorf("title %q", title)
	}
	later := w.agent("anna", "anything", `{"title":"a later one"}`)
	b.until("2 waiting for you") // the list keeps itself current
	b.shot("inbox")
	b.press(`a[href$="` + a.Approval + `"]`)
	b.says(`Refund "1200.00" "EUR" on order "ord_1001"`, "for anna, by support-bot", "1 more call of this run")
	b.shot("question")
	w.wantEffects(t)
	if _, err := chromedp.RunResponse(b.ctx, chromedp.SendKeys(chromedp.CSS("#approve"), "\r")); err != nil { // by keyboard
		t.Fatal(err)
	}
	b.says("approved by you", "It runs once, when the agent asks again")
	b.shot("approved")
	w.wantEffects(t)
	if got := w.back("anna", a); got.State != "succeeded" {
		t.Fatalf("%+v", got)
	}
	b.until("Approved, and done at")
	b.shot("done")
	w.wantEffects(t, effect1200)
	b.open("/console/runs/" + a.Run)
	b.says("succeeded", "a later one")
	b.shot("run")
	b.open("/console/approvals/" + later.Approval)
	b.do(chromedp.SendKeys(chromedp.CSS("#note"), "half a sentence"))
	w.send("anna", "/v1/calls/"+later.ID+"/cancel", "")
	b.until("This page has changed since you opened it") // and keeps what is being written
	if kept := js[string](b, `document.querySelector("#note").value`); kept != "half a sentence" {
		t.Errorf("the note is now %q", kept)
	}
	w.wantEffects(t, effect1200)
}

func TestBrowserReject(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 1000, 900, dark)
	b.known("lena")
	b.open("/console/approvals/" + a.Approval)
	b.shot("question-dark")
	b.do(chromedp.SendKeys(chromedp.CSS("#note"), "wrong customer"))
	b.press("#reject")
	b.says("rejected by you", "wrong customer", "It does not run")
	b.shot("rejected-dark")
	if got := w.back("anna", a); got.Code != "rejected" {
		t.Errorf("%+v", got)
	}
	w.wantEffects(t)
}

// What was shown is what counts: an answer to anything else is shown what is asked
// now, and can be given anew.
func TestBrowserMismatchAndExpiry(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 1000, 900)
	b.known("lena")
	b.open("/console/approvals/" + a.Approval)
	js[string](b, `document.querySelector("form[action$=approve] [name=binding]").value = "sha256:" + "ab".repeat(32)`)
	b.press("#approve")
	b.says("What you saw is not what would run", "was not recorded")
	b.shot("mismatch")
	w.back("anna", a)
	w.wantEffects(t)
	b.press("#approve")
	b.says("approved by you")
	w.back("anna", a)
	w.wantEffects(t, effect1200)

	late := w.agent("anna", "refund", `{"order_id":"ord_1002","amount":"700.00","currency":"EUR"}`)
	w.offset.Store(int64(50 * time.Minute))
	b.open("/console/approvals/" + late.Approval)
	b.as("lena") // her first token is over
	w.offset.Store(int64(61 * time.Minute))
	b.press("#approve")
	b.says("The question has expired", "Nobody answered in time")
	b.shot("expired")
	w.back("anna", late)
	w.wantEffects(t, effect1200)
}

// Everything works without scripts, on a phone.
func TestBrowserPhoneWithoutScripts(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 360, 740, noScripts)
	b.open("/console/approvals/" + a.Approval)
	b.shot("phone-sign-in")
	b.as("lena")
	b.says(`Refund "1200.00" "EUR" on order "ord_1001"`)
	b.shot("phone-question")
	b.press("#approve")
	b.says("approved by you")
	b.shot("phone-approved")
	w.back("anna", a)
	b.open("/console")
	b.shot("phone-inbox")
	w.wantEffects(t, effect1200)
}

// hostile is what an agent could send to be misread: markup, directions, zero
// widths, look-alikes, another sentence, length, width and depth.
func hostile() string {
	var keys []string
	for n := range 10_000 {
		keys = append(keys, fmt.Sprintf(`"key_%05d":"%d"`, n, n))
	}
	return `{"title":"\" for nobody, approved by \"Lena","markup":"<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><a href='https://evil.example'>click</a>",` +
		`"direction":"invoice\u202egpj.exe","zero":"pay\u200bpal\ufeff.com","alike":"p\u0430ypal.com","filler":"a\u3164b\u00a0c","brackets":"\u27e6U+202E\u27e7","lines":"one\ntwo\r\n\tthree",` +
		`"link":"https://evil.example/click-me","arabic":"\u0645\u0631\u062d\u0628\u0627","long":"` + strings.Repeat("x", 700_000) + `","deep":` + strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60) +
		`,"<b>bold</b>\u202e":"name","many":{` + strings.Join(keys, ",") + `}}`
}

func TestBrowserHostileArguments(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "anything", hostile())
	b := w.tab(t, 1000, 900)
	b.known("lena")
	b.open("/console/approvals/" + a.Approval)
	if title := js[string](b, `document.title`); title != "A question · Placet" {
		t.Errorf("the title is %q", title)
	}
	if n := js[int](b, `document.querySelectorAll("main script, main img, main iframe").length`); n != 0 {
		t.Errorf("%d elements of the agent's", n)
	}
	if bad := js[string](b, `[...document.querySelectorAll("a")].map(a => a.href).filter(h => new URL(h).origin != location.origin).join()`); bad != "" {
		t.Errorf("links to %s", bad)
	}
	if size := js[int](b, `document.documentElement.outerHTML.length`); size > 1_000_000 {
		t.Errorf("a page of %d characters", size)
	}
	js[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true) ?? true`)
	b.says(`Store "\" for nobody, approved by \"Lena"`, "invoice⟦U+202E right-to-left override⟧gpj.exe",
		"pay⟦U+200B zero width space⟧pal⟦U+FEFF zero width no-break space⟧.com", "pа⟦U+0430⟧ypal.com", "a⟦U+3164⟧b⟦U+00A0 no-break space⟧c", "⟦⟦U+27E6⟧U+202E⟧⟦U+27E7⟧",
		"one↵\ntwo⟦U+000D carriage return⟧↵", "<b>bold</b>⟦U+202E right-to-left override⟧", "<script>document.title", "in the file only", "more characters")
	js[bool](b, `document.querySelectorAll("details").forEach(d => d.open = false) ?? true`)
	b.shot("hostile")
	js[bool](b, `document.querySelector("summary").closest("details") && ([...document.querySelectorAll("details")].find(d => d.innerText.startsWith("Exact")).open = true)`)
	b.shot("hostile-arguments")
	phone := w.tab(t, 360, 740)
	phone.known("lena")
	phone.open("/console/approvals/" + a.Approval)
	js[bool](phone, `[...document.querySelectorAll("details")].find(d => d.innerText.startsWith("Exact")).open = true`)
	phone.shot("phone-hostile")
	w.wantEffects(t)
	b.press("#approve")
	w.back("anna", a)
	if got := w.effects(); len(got) != 1 || !strings.Contains(got[0], strings.Repeat("x", 700_000)) {
		t.Errorf("%d effects", len(got))
	}
}

// hostileGroup is a group that whoever names groups at an issuer could make, to be misread:
// markup, letters that run the other way or pass for others, what cannot be seen, length.
// Controls of direction are in no name that identity takes.
var hostileGroup = `<script>document.title='owned'</script><img src=x onerror="document.title='owned'">` + "\u05d0\u05d1 le\u0430ds\u3164a\u00a0b " + strings.Repeat("W", 300)

// A group's name is text, wherever a question shows it: as who is asked, as what an
// answer counted for, and in the list of tools. Its members answer, and others do not.
func TestBrowserHostileGroup(t *testing.T) {
	users := people()
	users.Users = append(users.Users, yamlfile.Entry[issuer.User]{Key: "hilde", Value: issuer.User{Name: "Hilde", Tenant: "dev", Groups: []string{hostileGroup}}})
	w := newWorldOf(t, "", users, placet.Tool{Name: "guarded", InputSchema: json.RawMessage(`{"type":"object"}`), Entry: registry.Entry{
		Write: true, Scope: "work", Sources: []registry.SourceName{"direct"}, Effect: "Do it",
		Approval: registry.Asking{When: registry.Always, Approvers: []string{"group:" + hostileGroup}, Quorum: 1, Expires: time.Hour}}})
	a := w.agent("anna", "guarded", `{}`)
	check := func(b *tab, path, name string) {
		t.Helper()
		b.open(path)
		if n := js[int](b, `document.querySelectorAll("main script, main img").length`); n != 0 || strings.Contains(js[string](b, `document.title`), "owned") {
			t.Errorf("%s: %d elements of the group's, title %q", path, n, js[string](b, `document.title`))
		}
		js[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true) ?? true`)
		b.says("<script>document.title='owned'</script><img src=x", "le\u0430⟦U+0430⟧ds⟦U+3164⟧a⟦U+00A0 no-break space⟧b", strings.Repeat("W", 200), "more characters")
		if strings.Contains(b.text(), "in the file only") {
			t.Errorf("%s leaves out a part of a name that no file holds", path)
		}
		b.shot(name)
	}
	b, phone, reader := w.tab(t, 1000, 900), w.tab(t, 360, 740), w.tab(t, 1000, 900, dark)
	b.known("hilde")
	phone.known("hilde")
	reader.known("otto")
	check(b, "/console/approvals/"+a.Approval, "group")
	check(phone, "/console/approvals/"+a.Approval, "phone-group")
	check(reader, "/console/tools", "group-tools-dark")
	lead := w.browser()
	lead.signIn("lena", "/console/approvals/"+a.Approval).want(t, 404)
	w.back("anna", a)
	w.wantEffects(t)
	b.press("#approve")
	b.says("approved by you")
	check(phone, "/console/approvals/"+a.Approval, "phone-group-answered")
	phone.says("as one of group <script>")
	w.back("anna", a)
	w.wantEffects(t, "guarded {}")
}

// A page elsewhere can neither frame the question nor send its form. To cookies it
// is the same site, since ports do not count: what keeps it out is ours.
func TestBrowserOtherSite(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 1000, 900)
	b.known("lena")
	b.open("/console/approvals/" + a.Approval)
	form := js[string](b, `document.querySelector("form[action$=approve]").outerHTML`)
	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/frame" {
			fmt.Fprintf(rw, `<p>evil</p><iframe src="%s/console/approvals/%s" width=800 height=600></iframe>`, w.url, a.Approval)
			return
		}
		fmt.Fprintf(rw, `<base href="%s">%s`, w.url, form) // even with the secret and the binding
	}))
	defer evil.Close()
	b.do(chromedp.Navigate(evil.URL + "/frame"))
	b.shot("framed")
	b.do(chromedp.Navigate(evil.URL + "/form"))
	b.press("#approve")
	b.says("another site sent this form")
	w.back("anna", a)
	w.wantEffects(t)
	b.open("/console/approvals/" + a.Approval)
	b.press("#approve")
	w.back("anna", a)
	w.wantEffects(t, effect1200)
}

// Readers see calls with decision and evidence, tools and what weakens a default.
func TestBrowserReader(t *testing.T) {
	w := newWorld(t)
	a := w.agent("anna", "refund", refund1200)
	b := w.tab(t, 1000, 900)
	b.known("otto")
	b.open("/console/calls")
	b.says("waits for a person", "support-bot")
	b.shot("calls")
	b.open("/console/calls/" + a.ID)
	b.says("registry above_limit", "sha256:", "Evidence")
	b.shot("call")
	b.open("/console/tools")
	b.says("anything", "group:leads")
	b.shot("tools")
	b.open("/console/limits")
	b.says("tool refund", "sources")
	b.shot("limits")
	b.open("/console/approvals/" + a.Approval)
	if js[bool](b, `document.querySelector("#approve") != null`) {
		t.Error("a reader who is not asked has a form to answer")
	}
	w.wantEffects(t)
}
