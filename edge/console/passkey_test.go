package console_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/go-webauthn/webauthn/protocol"
	"github.com/placet-dev/placet"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/passkey/passkeytest"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// passkeyWorld is a world with a tool that wants signed answers of one lead, and one
// that wants those of two. Passkeys are for names, so it is called localhost.
func passkeyWorld(t testing.TB) *world {
	tool := func(name string, quorum int) placet.Tool {
		zero := 0
		return placet.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","additionalProperties":true}`), Entry: registry.Entry{
			Write: true, Scope: "work", Sources: []registry.SourceName{"direct"}, PerMinute: &zero, Effect: "Pay {amount} to {to}", Targets: []string{"to"},
			Approval: registry.Asking{When: registry.Always, Approvers: []string{"group:leads"}, Quorum: quorum, Expires: time.Hour, Passkey: true}}}
	}
	return newWorldAt(t, "localhost", tool("pay", 1), tool("paytwo", 2))
}

const (
	pay      = `{"amount":"900.00","to":"acc_7"}`
	paid     = `pay {"amount":"900.00","to":"acc_7"}`
	paidBoth = `paytwo {"amount":"900.00","to":"acc_7"}`
)

var (
	challengeOf = regexp.MustCompile(`data-challenge="([^"]+)"`)
	addNonce    = regexp.MustCompile(`data-passkey="create" data-challenge="([^"]+)"`)
	removeForm  = regexp.MustCompile(`action="(/console/passkeys/[^"]+/remove)" data-passkey="get" data-challenge="([^"]+)"`)
)

func decoded(t testing.TB, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		t.Fatalf("no challenge in the page: %q, %v", text, err)
	}
	return b
}

func (w *world) device() *passkeytest.Device { return passkeytest.New("localhost", w.url) }

// fresh signs in anew, as one has to for a change of passkeys.
func (b *browser) fresh(user string) shown {
	b.w.t.Helper()
	page := b.get("/console/sign-in?fresh=1&to=/console/passkeys")
	return b.post("/dev/issuer/login", url.Values{"request": {first(request, page.body)}, "user": {user}})
}

// adds enrols a device, which an older one confirms.
func (b *browser) adds(page shown, d, older *passkeytest.Device) shown {
	b.w.t.Helper()
	nonce := decoded(b.w.t, first(addNonce, page.body))
	message, attestation := d.Create(nonce)
	f := url.Values{"form": {first(formOf, page.body)}, "name": {"laptop"}, "created": {string(message)}}
	if older != nil {
		f.Set("passkey", string(older.Sign(confirmation(nonce, attestation))))
	}
	return b.post("/console/passkeys/add", f)
}

// lead is somebody signed in who has a passkey.
func (w *world) lead(user string) (*browser, *passkeytest.Device) {
	w.t.Helper()
	b, d := w.browser(), w.device()
	b.adds(b.fresh(user), d, nil).want(w.t, 200, "laptop", "not used yet")
	return b, d
}

// signs answers with a device as the page's script does.
func (b *browser) signs(a answer, d *passkeytest.Device) shown {
	b.w.t.Helper()
	page := b.get("/console/approvals/" + a.Approval)
	return b.answers(a.Approval, "approve", page, "passkey", string(d.Sign(decoded(b.w.t, first(challengeOf, page.body)))))
}

// A yes counts with the person's passkey over this question, and with nothing else.
func TestSignedAnswer(t *testing.T) {
	w := passkeyWorld(t)
	lena, device := w.lead("lena")
	lars, other := w.lead("lars")
	a, b := w.agent("anna", "pay", pay), w.agent("anna", "pay", `{"amount":"1.00","to":"acc_8"}`)
	page := lena.get("/console/approvals/"+a.Approval).want(t, 200, "Approve with passkey", "Rejecting works without")
	ask := decoded(t, first(challengeOf, page.body))
	elsewhere := decoded(t, first(challengeOf, lena.get("/console/approvals/"+b.Approval).body))
	evil := *device
	evil.Origin = "https://evil.example"
	blind := *device
	blind.Flags = passkeytest.Present
	for name, signed := range map[string]string{
		"nothing": "", "no assertion": "yes", "another question": string(device.Sign(elsewhere)), "somebody else's passkey": string(other.Sign(ask)),
		"one that was never added": string(w.device().Sign(ask)), "another site": string(evil.Sign(ask)), "nobody verified": string(blind.Sign(ask)),
	} {
		got := lena.answers(a.Approval, "approve", page, "passkey", signed)
		if got.status != http.StatusForbidden && got.status != http.StatusBadRequest {
			t.Errorf("%s: status %d\n%s", name, got.status, got.body)
		}
	}
	if w.back("anna", a); len(w.effects()) > 0 {
		t.Fatalf("it ran: %q", w.effects())
	}
	// Over the API the same holds: who has the person's token has not their passkey.
	status, code := w.approve(t, "lars", a, "")
	if status != http.StatusForbidden || code != "needs_passkey" {
		t.Errorf("over the API: %d %s", status, code)
	}
	lena.signs(a, device).want(t, 200, "approved</strong> by you")
	w.wantEffects(t)
	w.back("anna", a)
	w.back("anna", a)
	w.wantEffects(t, paid)
	lars.get("/console/approvals/"+b.Approval).want(t, 200)
	if status, code := w.approve(t, "lars", b, string(other.Sign(elsewhere))); status != http.StatusOK {
		t.Errorf("a signed answer over the API: %d %s", status, code)
	}
	w.back("anna", b)
	w.wantEffects(t, paid, `pay {"amount":"1.00","to":"acc_8"}`)
	lena.get("/console/passkeys").want(t, 200, "last used")
}

// A no needs no passkey, and nobody without one is kept from saying it.
func TestRejectWithoutPasskey(t *testing.T) {
	w := passkeyWorld(t)
	a := w.agent("anna", "pay", pay)
	lena := w.browser()
	page := lena.signIn("lena", "/console/approvals/"+a.Approval).want(t, 200, "you have none here")
	if strings.Contains(page.body, "Approve with passkey") {
		t.Error("a yes is offered to somebody without a passkey")
	}
	lena.answers(a.Approval, "reject", page).want(t, 200, "rejected</strong> by you")
	w.back("anna", a)
	w.wantEffects(t)
}

// Two leads are two passkeys of two persons.
func TestSignedQuorum(t *testing.T) {
	w := passkeyWorld(t)
	lena, one := w.lead("lena")
	lars, two := w.lead("lars")
	a := w.agent("anna", "paytwo", pay)
	lena.signs(a, one).want(t, 200, "1 of 2 said yes")
	w.back("anna", a)
	w.wantEffects(t)
	lars.signs(a, two).want(t, 200, "approved")
	w.back("anna", a)
	w.wantEffects(t, paidBoth)
}

// A counter that goes back is that of a copy.
func TestCounter(t *testing.T) {
	w := passkeyWorld(t)
	b, d := w.browser(), w.device()
	d.Counts = true
	b.adds(b.fresh("lena"), d, nil).want(t, 200, "laptop")
	early := *d
	a, c := w.agent("anna", "pay", pay), w.agent("anna", "pay", `{"amount":"2.00","to":"acc_9"}`)
	b.signs(a, d).want(t, 200, "approved</strong> by you")
	b.signs(c, &early).want(t, 403, "counter went back")
	w.back("anna", c)
	w.wantEffects(t)
	w.back("anna", a)
	w.wantEffects(t, paid)
}

// Passkeys are changed just after a sign-in, and with one that the person has.
func TestChangePasskeys(t *testing.T) {
	w := passkeyWorld(t)
	lena, older := w.lead("lena")
	// A session that somebody stole later.
	page := lena.get("/console/passkeys")
	w.offset.Store(int64(6 * time.Minute))
	if old := lena.get("/console/passkeys"); strings.Contains(old.body, `id="add"`) {
		t.Error("a change is offered long after the sign-in")
	}
	lena.adds(page, w.device(), older).want(t, 403, "too long ago")
	// Even fresh, nothing is added without an older one, nor with somebody else's.
	page = lena.fresh("lena").want(t, 200, `id="add"`)
	lena.adds(page, w.device(), nil).want(t, 403, "confirm this with a passkey that you have")
	lena.adds(lena.get("/console/passkeys"), w.device(), w.device()).want(t, 403, "not confirmed with a passkey of yours")
	lena.adds(page, w.device(), older).want(t, 400, "too old") // its nonce is used up
	second := w.device()
	lena.adds(lena.get("/console/passkeys"), second, older).want(t, 200, "laptop")
	// Nobody else can add the same, and a copy of the row is not one.
	lars := w.browser()
	lars.adds(lars.fresh("lars"), second, nil).want(t, 409, "enrolled already")
	// What it signed counts no longer when it is removed.
	a := w.agent("anna", "pay", pay)
	lena.signs(a, second).want(t, 200, "approved</strong> by you")
	page = lena.get("/console/passkeys")
	var path, challenge string
	for _, m := range removeForm.FindAllStringSubmatch(page.body, -1) {
		if strings.Contains(m[1], base64.RawURLEncoding.EncodeToString(second.ID)) {
			path, challenge = m[1], m[2]
		}
	}
	form := url.Values{"form": {first(formOf, page.body)}}
	lena.post(path, form).want(t, 403, "confirm this with a passkey that you have")
	page = lena.get("/console/passkeys")
	for _, m := range removeForm.FindAllStringSubmatch(page.body, -1) {
		if m[1] == path {
			challenge = m[2]
		}
	}
	form.Set("passkey", string(older.Sign(decoded(t, challenge))))
	lena.post(path, form).want(t, 200)
	w.back("anna", a)
	w.wantEffects(t)
	again := w.back("anna", a)
	lena.signs(answer{Approval: w.question(t, again)}, older).want(t, 200, "approved</strong> by you")
	w.back("anna", a)
	w.wantEffects(t, paid)
}

// Whoever writes into the store makes no yes, and nothing that was signed becomes
// a yes to something else. Then the real one runs once.
func TestChangedRows(t *testing.T) {
	pay2 := `{"amount":"9000.00","to":"acc_666"}`
	for name, forge := range map[string]func(t *testing.T, w *world, a answer){
		"the question's state": func(t *testing.T, w *world, a answer) {
			w.sql(t, `UPDATE approvals SET state = 'approved', version = version + 1 WHERE id = ?`, a.Approval)
		},
		"a row of an answer": func(t *testing.T, w *world, a answer) {
			w.sql(t, `INSERT INTO answers (tenant, approval, issuer, subject, word, note, groups, binding, at, proof)
				SELECT tenant, id, 'urn:placet:dev', 'lena', 'approved', '', '[{"issuer":"urn:placet:dev","name":"leads"}]', binding, asked, '' FROM approvals WHERE id = ?`, a.Approval)
			w.sql(t, `UPDATE approvals SET state = 'approved', version = version + 1 WHERE id = ?`, a.Approval)
		},
		"an answer to another question": func(t *testing.T, w *world, a answer) {
			lena, device := w.lead("lena")
			other := w.agent("anna", "pay", `{"amount":"1.00","to":"acc_8"}`)
			lena.signs(other, device).want(t, 200, "approved</strong> by you")
			w.sql(t, `INSERT INTO answers (tenant, approval, issuer, subject, word, note, groups, binding, at, proof)
				SELECT x.tenant, q.id, x.issuer, x.subject, x.word, x.note, x.groups, q.binding, x.at, x.proof FROM answers x, approvals q WHERE x.approval = ? AND q.id = ?`, other.Approval, a.Approval)
			w.sql(t, `UPDATE approvals SET state = 'approved', version = version + 1 WHERE id = ?`, a.Approval)
		},
		"a passkey, and its signature": func(t *testing.T, w *world, a answer) {
			// Mallory's own device, which she says is Lena's: whole, but for the seal.
			_, sealed := w.lead("lars")
			mallory := w.device()
			message, _ := mallory.Create(make([]byte, 32))
			public := coseOf(t, message)
			w.sql(t, `INSERT INTO passkeys SELECT tenant, issuer, 'lena', ?, ?, name, rp_id, added, seal, 0, 0 FROM passkeys WHERE id = ?`, mallory.ID, public, sealed.ID)
			status, code := w.approve(t, "lena", a, string(mallory.Sign(w.challenge(t, a))))
			if status != http.StatusForbidden || code != "needs_passkey" {
				t.Errorf("a passkey of the store alone signs: %d %s", status, code)
			}
			w.sql(t, `UPDATE approvals SET state = 'approved', version = version + 1 WHERE id = ?`, a.Approval)
		},
		"another's passkey made hers": func(t *testing.T, w *world, a answer) {
			_, device := w.lead("lars")
			w.sql(t, `UPDATE passkeys SET subject = 'lena' WHERE id = ?`, device.ID)
			status, code := w.approve(t, "lena", a, string(device.Sign(w.challenge(t, a))))
			if status != http.StatusForbidden || code != "needs_passkey" {
				t.Errorf("a passkey of somebody else signs: %d %s", status, code)
			}
		},
		"the groups of somebody who was not asked": func(t *testing.T, w *world, a answer) {
			// Otto has a passkey, and is no lead. He signs what Lena was asked.
			_, device := w.lead("otto")
			proof := signedProof(t, w, device, w.challenge(t, a))
			w.sql(t, `INSERT INTO answers (tenant, approval, issuer, subject, word, note, groups, binding, at, proof)
				SELECT tenant, id, 'urn:placet:dev', 'otto', 'approved', '', '[{"issuer":"urn:placet:dev","name":"leads"}]', binding, asked, ? FROM approvals WHERE id = ?`, proof, a.Approval)
			w.sql(t, `UPDATE approvals SET state = 'approved', version = version + 1 WHERE id = ?`, a.Approval)
		},
		"a removed passkey put back": func(t *testing.T, w *world, a answer) {
			lena, device := w.lead("lena")
			lena.signs(a, device).want(t, 200, "approved</strong> by you")
			w.sql(t, `CREATE TABLE kept AS SELECT * FROM passkeys`)
			page := lena.get("/console/passkeys")
			m := removeForm.FindStringSubmatch(page.body)
			lena.post(m[1], url.Values{"form": {first(formOf, page.body)}, "passkey": {string(device.Sign(decoded(t, m[2])))}}).want(t, 200, "You have none here")
			w.sql(t, `INSERT INTO passkeys SELECT * FROM kept`)
		},
		"the arguments after the yes": func(t *testing.T, w *world, a answer) {
			lena, device := w.lead("lena")
			lena.signs(a, device).want(t, 200, "approved</strong> by you")
			w.sql(t, `UPDATE calls SET arguments = ? WHERE id = ?`, pay2, a.ID)
			if w.back("anna", a); len(w.effects()) > 0 {
				t.Fatalf("it ran: %q", w.effects())
			}
			w.sql(t, `UPDATE calls SET arguments = ? WHERE id = ?`, pay, a.ID)
		},
		"used up, and not known": func(t *testing.T, w *world, a answer) {
			w.sql(t, `UPDATE approvals SET state = 'consumed', version = version + 1 WHERE id = ?`, a.Approval)
			w.sql(t, `UPDATE calls SET state = 'unknown', version = version + 1, attempt = 1, attempts = 3 WHERE id = ?`, a.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := passkeyWorld(t)
			a := w.agent("anna", "pay", pay)
			forge(t, w, a)
			w.back("anna", a)
			w.back("anna", a)
			w.wantEffects(t)
			b := w.agent("anna", "pay", `{"amount":"3.00","to":"acc_3"}`)
			lars, device := w.browser(), w.device()
			page := lars.fresh("lars")
			if !strings.Contains(page.body, "You have none here") { // this forgery used his
				w.sql(t, `DELETE FROM passkeys`)
				page = lars.get("/console/passkeys")
			}
			lars.adds(page, device, nil).want(t, 200, "laptop")
			lars.signs(b, device).want(t, 200, "approved</strong> by you")
			w.back("anna", b)
			w.wantEffects(t, `pay {"amount":"3.00","to":"acc_3"}`)
		})
	}
}

// Nobody signs one thing while they read another: a question whose rows were changed
// is not shown.
func TestChangedRowsAreNotShown(t *testing.T) {
	for name, change := range map[string]string{
		"arguments": `UPDATE calls SET arguments = '{"amount":"0.01","to":"acc_7"}' WHERE id = ?1`,
		"sentence":  `UPDATE calls SET details = replace(details, '900.00', '0.01') WHERE id = ?1`,
		"agent":     `UPDATE calls SET agent = 'trusted-bot' WHERE id = ?1`,
		"purpose":   `UPDATE calls SET purpose = 'nothing to see' WHERE id = ?1`,
	} {
		t.Run(name, func(t *testing.T) {
			w := passkeyWorld(t)
			lena, device := w.lead("lena")
			a, b := w.agent("anna", "pay", pay), w.agent("anna", "pay", `{"amount":"1.00","to":"acc_8"}`)
			lena.get("/console/approvals/"+a.Approval).want(t, 200, "900.00")
			w.sql(t, change, a.ID)
			lena.get("/console/approvals/"+a.Approval).want(t, 503, "does not hold together")
			lena.signs(b, device).want(t, 200, "approved</strong> by you")
			w.back("anna", b)
			w.wantEffects(t, `pay {"amount":"1.00","to":"acc_8"}`)
		})
	}
}

// sql changes the store's file behind the server's back.
func (w *world) sql(t *testing.T, statement string, args ...any) {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(w.dir, "state.db"), sqlite.OpenReadWrite|sqlite.OpenWAL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetBusyTimeout(10 * time.Second)
	if err := sqlitex.ExecuteTransient(conn, statement, &sqlitex.ExecOptions{Args: args}); err != nil {
		t.Fatal(err)
	}
	if conn.Changes() == 0 && !strings.HasPrefix(statement, "CREATE") {
		t.Fatalf("no row was changed: %s", statement)
	}
}

// stored reads one value of the file.
func (w *world) stored(t *testing.T, statement string, args ...any) (out []byte) {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(w.dir, "state.db"), sqlite.OpenReadWrite|sqlite.OpenWAL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetBusyTimeout(10 * time.Second)
	err = sqlitex.ExecuteTransient(conn, statement, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		out = make([]byte, s.ColumnLen(0))
		s.ColumnBytes(0, out)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// challenge is what a page would ask to sign, computed as an attacker would.
func (w *world) challenge(t *testing.T, a answer) []byte {
	t.Helper()
	var binding canon.Digest
	copy(binding[:], w.stored(t, `SELECT binding FROM approvals WHERE id = ?`, a.Approval))
	d := record.AnswerChallenge(binding, record.ApprovalID(a.Approval), record.Yes)
	return d[:]
}

func (w *world) question(t *testing.T, a answer) string {
	t.Helper()
	return string(w.stored(t, `SELECT approval FROM calls WHERE id = ?`, a.ID))
}

// approve answers over the API.
func (w *world) approve(t *testing.T, subject string, a answer, signed string) (int, string) {
	t.Helper()
	token, err := w.local.Sign(identity.TokenSpec{Audience: w.url + "/console", Subject: subject, Tenant: "dev", Groups: []string{"leads"}})
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]any{"binding": "sha256:" + fmt.Sprintf("%x", w.stored(t, `SELECT binding FROM approvals WHERE id = ?`, a.Approval))}
	if signed != "" {
		body["passkey"] = json.RawMessage(signed)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, w.url+"/v1/approvals/"+a.Approval+"/approve", strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct{ Code string }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, got.Code
}

func virtual(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	if _, err := cdp.Call(ctx, t, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		return chromedp.Void{}, err
	}
	_, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
	return chromedp.Void{}, err
}

// A real browser with an authenticator: added, asked, signed, run once. Another
// browser with the same cookie and no authenticator gets no yes.
func TestBrowserPasskey(t *testing.T) {
	w := passkeyWorld(t)
	a := w.agent("anna", "pay", pay)
	b := w.tab(t, 1000, 900, virtual)
	b.open("/console/approvals/" + a.Approval)
	b.as("lena")
	b.says("you have none here")
	b.press(`a[href="/console/passkeys"]:not(nav a)`)
	b.says("You have none here", "Add a passkey") // she signed in just now
	b.do(chromedp.SendKeys(chromedp.CSS("#name"), "Lena's laptop"))
	b.shot("passkeys-empty")
	b.press("#add")
	b.says("Lena's laptop", "not used yet")
	b.shot("passkeys")
	b.open("/console/approvals/" + a.Approval)
	b.shot("question-passkey")

	thief := w.tab(t, 1000, 900)
	cookie := js[string](b, `document.cookie`) // none of it is for scripts
	if strings.Contains(cookie, "session") {
		t.Error("scripts can read the session")
	}
	thief.stolen(b)
	thief.open("/console/approvals/" + a.Approval)
	thief.says("Approve with passkey")
	js[bool](thief, `navigator.credentials.get = () => Promise.reject(new DOMException("no", "NotAllowedError")), true`)
	thief.do(chromedp.Click(chromedp.CSS("#approve")))
	thief.until("No passkey answered")
	js[bool](thief, `delete document.querySelector("form[action$=approve]").dataset.passkey`) // past the script
	thief.press("#approve")
	thief.says("A passkey is needed")
	w.back("anna", a)
	w.wantEffects(t)

	b.press("#approve")
	b.says("approved by you")
	b.shot("approved-passkey")
	w.wantEffects(t)
	w.back("anna", a)
	w.back("anna", a)
	w.wantEffects(t, paid)

	phone := w.tab(t, 360, 740)
	phone.stolen(b)
	phone.open("/console/passkeys")
	phone.shot("phone-passkeys")
	w.offset.Store(int64(5 * time.Minute))
	b.open("/console/passkeys")
	b.says("sign in again")
	if js[bool](b, `document.querySelector("#add") != null`) {
		t.Error("a change is offered without a fresh sign-in")
	}
	b.press("#fresh")
	b.press(`form:has(input[value="lena"]) button`)
	b.says("Add a passkey", "confirm it with a passkey that you have")
	b.press(`form[action$="/remove"] button`) // by itself
	b.says("You have none here")
	b.shot("passkeys-removed")
}

// Without scripts a question says what to do, and a no works.
func TestBrowserPasskeyWithoutScripts(t *testing.T) {
	w := passkeyWorld(t)
	a := w.agent("anna", "pay", pay)
	w.lead("lena")
	b := w.tab(t, 360, 740, noScripts)
	b.known("lena")
	b.open("/console/approvals/" + a.Approval)
	b.says("A passkey needs scripts", "Rejecting works without")
	b.shot("phone-passkey-noscript")
	b.press("#approve")
	b.says("A passkey is needed")
	b.open("/console/approvals/" + a.Approval)
	b.press("#reject")
	b.says("rejected by you")
	w.back("anna", a)
	w.wantEffects(t)
}

// stolen gives a tab another's session.
func (b *tab) stolen(from *tab) {
	b.t.Helper()
	u, err := url.Parse(b.w.url)
	if err != nil {
		b.t.Fatal(err)
	}
	name, value := "placet-session-"+u.Port(), ""
	from.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		got, err := cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{URLs: []string{b.w.url}})
		if err == nil {
			for _, c := range got.Cookies {
				if c.Name == name {
					value = c.Value
				}
			}
		}
		return chromedp.Void{}, err
	})
	if value == "" {
		b.t.Fatal("no session to steal")
	}
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, network.SetCookie, network.SetCookieParams{Name: name, Value: value, URL: b.w.url})
		return chromedp.Void{}, err
	})
}

// confirmation is what the page's script asks an older passkey to sign.
func confirmation(nonce, attestation []byte) []byte { return passkey.Confirmation(nonce, attestation) }

// coseOf is the public key of a registration.
func coseOf(t *testing.T, message []byte) []byte {
	t.Helper()
	read, err := protocol.ParseCredentialCreationResponseBytes(message)
	if err != nil {
		t.Fatal(err)
	}
	return read.Response.AttestationObject.AuthData.AttData.CredentialPublicKey
}

// signedProof is an answer's proof as somebody would write it who can write the
// store: everything right but the server's own seal over the answer.
func signedProof(t *testing.T, w *world, d *passkeytest.Device, challenge []byte) string {
	t.Helper()
	proof, err := passkey.Read(d.Sign(challenge))
	if err != nil {
		t.Fatal(err)
	}
	who := record.Principal{Issuer: "urn:placet:dev", Subject: "otto"}
	have, err := w.placet.Records().(interface {
		Passkeys(context.Context, record.TenantID, record.Principal) ([]record.Passkey, error)
	}).Passkeys(t.Context(), "dev", who)
	if err != nil || len(have) != 1 {
		t.Fatal(have, err)
	}
	proof.Passkey, proof.Seal = have[0], have[0].Seal
	text, err := json.Marshal(proof)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What the server exports is verified from itself alone; and nothing else is.
func TestEvidence(t *testing.T) {
	w := passkeyWorld(t)
	lena, one := w.lead("lena")
	lars, two := w.lead("lars")
	a := w.agent("anna", "paytwo", `{"amount":"900.00 <&>","to":"acc_7"}`)
	lena.signs(a, one).want(t, 200)
	if _, err := w.evidence(t, a).Verify(); err == nil {
		t.Error("one of two leads is verified as both")
	}
	lars.signs(a, two).want(t, 200)
	w.back("anna", a)
	w.wantEffects(t, `paytwo {"amount":"900.00 <&>","to":"acc_7"}`)
	e := w.evidence(t, a)
	answers, err := e.Verify()
	if err != nil || len(answers) != 2 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for name, change := range map[string]func(*passkey.Evidence){
		"arguments": func(e *passkey.Evidence) { e.Of.Arguments = json.RawMessage(`{"amount":"1.00","to":"acc_7"}`) },
		"targets":   func(e *passkey.Evidence) { e.Of.Targets[0].Value = json.RawMessage(`"acc_8"`) },
		"salt":      func(e *passkey.Evidence) { e.Of.Salt[0] ^= 1 },
		"no salt":   func(e *passkey.Evidence) { e.Of.Salt, e.Version = nil, 1 },
		"principal": func(e *passkey.Evidence) { e.Of.Principal.Subject = "mallory" },
		"rule":      func(e *passkey.Evidence) { e.Of.Rule.Parts[0].Quorum = 1 },
		"no demand": func(e *passkey.Evidence) { e.Of.Rule.Passkey = false },
		"person":    func(e *passkey.Evidence) { e.Answers[0].Person.Subject = "mallory" },
		"groups":    func(e *passkey.Evidence) { e.Answers[0].Groups = nil },
		"note":      func(e *passkey.Evidence) { e.Answers[0].Note = "gladly" },
		"time":      func(e *passkey.Evidence) { e.Answers[0].At = e.Answers[0].At.Add(time.Second) },
		"one less":  func(e *passkey.Evidence) { e.Answers = e.Answers[1:] },
		"one twice": func(e *passkey.Evidence) { e.Answers[0] = e.Answers[1] },
		"unsigned":  func(e *passkey.Evidence) { e.Answers[0].Proof = nil },
		"signature": func(e *passkey.Evidence) { e.Answers[0].Proof.Signature[9] ^= 1 },
		"question":  func(e *passkey.Evidence) { e.Approval = "apr_00000000000000000000000000" },
		"site":      func(e *passkey.Evidence) { e.Site.Origin = "http://localhost:1" },
		"key":       func(e *passkey.Evidence) { e.Key = make([]byte, 32) },
	} {
		e := w.evidence(t, a)
		change(&e)
		if _, err := e.Verify(); err == nil {
			t.Errorf("verified with another %s", name)
		}
	}

	// Once the call is redacted nothing shows what the binding is of, but what was taken before.
	w.redact(t, a, "asked for").want(t, 200)
	w.askEvidence(t, a).want(t, 409, "was redacted").without(t, "900.00", "acc_7")
	if answers, err := e.Verify(); err != nil || len(answers) != 2 {
		t.Errorf("%d answers, %v", len(answers), err)
	}
}

// askEvidence asks the API for the evidence of a question, as who may answer it.
func (w *world) askEvidence(t *testing.T, a answer) shown {
	t.Helper()
	token, err := w.local.Sign(identity.TokenSpec{Audience: w.url + "/console", Subject: "lena", Tenant: "dev", Groups: []string{"leads"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, w.url+"/v1/approvals/"+a.Approval+"/evidence", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return w.browser().do(r)
}

// evidence is what the API gives, read as the command reads it.
func (w *world) evidence(t *testing.T, a answer) passkey.Evidence {
	t.Helper()
	got := w.askEvidence(t, a).want(t, 200)
	e, err := passkey.ReadEvidence([]byte(got.body))
	if err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	return e
}
