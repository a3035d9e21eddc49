package passkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/passkey/passkeytest"
	"github.com/placet-dev/placet/record"
)

const publicURL = "https://tools.example.com"

var lena = record.Principal{Issuer: "https://idp", Subject: "lena"}

func open(t testing.TB, path string) *passkey.Keys {
	t.Helper()
	site, err := passkey.SiteOf(publicURL)
	if err != nil {
		t.Fatal(err)
	}
	k, err := passkey.Open(path, site, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func nonce() []byte { return bytes.Repeat([]byte{7}, 32) }

func enrol(t testing.TB, k *passkey.Keys, d *passkeytest.Device) record.Passkey {
	t.Helper()
	message, _ := d.Create(nonce())
	p, _, err := k.Enrol(message, nonce(), record.Passkey{Tenant: "acme", Person: lena, Name: "laptop", Added: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func read(t testing.TB, message []byte, p record.Passkey) record.Proof {
	t.Helper()
	proof, err := passkey.Read(message)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(proof.Passkey.ID, p.ID) {
		t.Fatal("another passkey answered")
	}
	proof.Passkey = p
	return proof
}

func challenge(q, word string) []byte {
	d := record.AnswerChallenge(canon.Of("a binding"), record.ApprovalID(q), record.Word(word))
	return d[:]
}

// What is signed counts for exactly that, and for nothing that differs in one thing.
func TestVerify(t *testing.T) {
	k := open(t, filepath.Join(t.TempDir(), "key"))
	ask := challenge("apr_1", "approved")
	for name, tc := range map[string]struct {
		device func(*passkeytest.Device)
		change func(*record.Proof)
		ask    []byte
		counts bool
	}{
		"as it is":            {counts: true},
		"a counter":           {device: func(d *passkeytest.Device) { d.Counts = true }, counts: true},
		"another question":    {ask: challenge("apr_2", "approved")},
		"the other word":      {ask: challenge("apr_1", "rejected")},
		"another binding":     {ask: func() []byte { d := record.AnswerChallenge(canon.Of("another"), "apr_1", record.Yes); return d[:] }()},
		"no challenge":        {ask: []byte{}},
		"another origin":      {device: func(d *passkeytest.Device) { d.Origin = "https://evil.example" }},
		"a subdomain":         {device: func(d *passkeytest.Device) { d.Origin = "https://x.tools.example.com" }},
		"another port":        {device: func(d *passkeytest.Device) { d.Origin = publicURL + ":8443" }},
		"plain http":          {device: func(d *passkeytest.Device) { d.Origin = "http://tools.example.com" }},
		"another domain":      {device: func(d *passkeytest.Device) { d.RPID = "example.com" }},
		"inside another page": {device: func(d *passkeytest.Device) { d.Cross = true }},
		"a registration":      {device: func(d *passkeytest.Device) { d.Type = "webauthn.create" }},
		"nobody present":      {device: func(d *passkeytest.Device) { d.Flags = passkeytest.Verified }},
		"nobody verified":     {device: func(d *passkeytest.Device) { d.Flags = passkeytest.Present }},
		"another person's":    {change: func(p *record.Proof) { p.Passkey.Person.Subject = "mallory" }},
		"another tenant's":    {change: func(p *record.Proof) { p.Passkey.Tenant = "globex" }},
		"another name":        {change: func(p *record.Proof) { p.Passkey.Name = "phone" }},
		"another key": {change: func(p *record.Proof) {
			p.Passkey.Public = enrol(t, k, passkeytest.New("tools.example.com", publicURL)).Public
		}},
		"no seal": {change: func(p *record.Proof) { p.Passkey.Seal = nil }},
		"a seal of another key": {change: func(p *record.Proof) {
			p.Passkey.Seal = enrol(t, open(t, filepath.Join(t.TempDir(), "other")), passkeytest.New("tools.example.com", publicURL)).Seal
		}},
		"another signature":       {change: func(p *record.Proof) { p.Signature = append(bytes.Clone(p.Signature), 0) }},
		"a flag set afterwards":   {device: func(d *passkeytest.Device) { d.Flags = passkeytest.Present }, change: func(p *record.Proof) { p.Authenticator[32] |= passkeytest.Verified }},
		"a member of client data": {change: func(p *record.Proof) { p.Client = append([]byte(`{"x":1,`), p.Client[1:]...) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := passkeytest.New("tools.example.com", publicURL)
			p := enrol(t, k, d)
			if tc.device != nil {
				tc.device(d)
			}
			proof := read(t, d.Sign(ask), p)
			if tc.change != nil {
				tc.change(&proof)
			}
			if tc.ask == nil {
				tc.ask = ask
			}
			if err := k.Verify(proof, tc.ask); (err == nil) != tc.counts {
				t.Errorf("counts: %v, want %v: %v", err == nil, tc.counts, err)
			}
		})
	}
}

// A removed passkey stays removed, whatever the store says later; another does not
// suffer from it; and both outlast a restart.
func TestForget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	k := open(t, path)
	a, b := passkeytest.New("tools.example.com", publicURL), passkeytest.New("tools.example.com", publicURL)
	pa, pb := enrol(t, k, a), enrol(t, k, b)
	if err := k.Forget(pa); err != nil {
		t.Fatal(err)
	}
	ask := challenge("apr_1", "approved")
	for _, k := range []*passkey.Keys{k, open(t, path)} {
		if err := k.Verify(read(t, a.Sign(ask), pa), ask); err == nil {
			t.Error("a removed passkey counts")
		}
		if err := k.Verify(read(t, b.Sign(ask), pb), ask); err != nil {
			t.Errorf("another one does not: %v", err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := passkey.Open(path, passkey.Site{}, rand.Reader); record.KindOf(err) != record.Invalid {
		t.Errorf("a key that others can read is taken: %v", err)
	}
}

func TestEnrolRefuses(t *testing.T) {
	k := open(t, filepath.Join(t.TempDir(), "key"))
	for name, change := range map[string]func(*passkeytest.Device){
		"another origin": func(d *passkeytest.Device) { d.Origin = "https://evil.example" }, "another domain": func(d *passkeytest.Device) { d.RPID = "example.com" },
		"nobody verified": func(d *passkeytest.Device) { d.Flags = passkeytest.Present }, "an assertion": func(d *passkeytest.Device) { d.Type = "webauthn.get" },
		"inside another page": func(d *passkeytest.Device) { d.Cross = true },
	} {
		d := passkeytest.New("tools.example.com", publicURL)
		change(d)
		message, _ := d.Create(nonce())
		if _, _, err := k.Enrol(message, nonce(), record.Passkey{}); record.KindOf(err) != record.NeedsPasskey {
			t.Errorf("%s: %v", name, err)
		}
	}
	message, _ := passkeytest.New("tools.example.com", publicURL).Create(nonce())
	if _, _, err := k.Enrol(message, bytes.Repeat([]byte{8}, 32), record.Passkey{}); err == nil {
		t.Error("a registration for another nonce is taken")
	}
}

func TestSiteOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://tools.example.com": "tools.example.com", "https://tools.example.com:8443": "tools.example.com", "http://localhost:8088": "localhost",
		"http://127.0.0.1:8088": "", "https://[::1]": "", "http://tools.example.com": "", "": "",
	} {
		site, err := passkey.SiteOf(address)
		if site.RPID != want || (err == nil) != (want != "") {
			t.Errorf("%s: %+v, %v", address, site, err)
		}
	}
}

// Whatever a browser sends: it is read whole, or refused; and what is read is no
// more than what verifies.
func FuzzRead(f *testing.F) {
	k := open(f, filepath.Join(f.TempDir(), "key"))
	d := passkeytest.New("tools.example.com", publicURL)
	p := enrol(f, k, d)
	ask := challenge("apr_1", "approved")
	good := d.Sign(ask)
	f.Add(good)
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"AA","signature":"AA"}}`))
	f.Add([]byte(`{"id":"AA","id":"AB"}`))
	f.Add([]byte(`null`))
	want, err := passkey.Read(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		proof, err := passkey.Read(message)
		if err != nil {
			if record.KindOf(err) != record.Invalid {
				t.Errorf("kind %s", record.KindOf(err))
			}
			return
		}
		proof.Passkey = p
		if k.Verify(proof, ask) == nil && (!bytes.Equal(proof.Client, want.Client) || !bytes.Equal(proof.Authenticator, want.Authenticator)) {
			t.Error("something counts that nobody signed")
		}
		if _, err := json.Marshal(proof); err != nil {
			t.Error(err)
		}
	})
}
