package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/passkey"
	"github.com/placet-dev/placet/passkey/passkeytest"
	"github.com/placet-dev/placet/record"
)

// evidence is that of one signed yes, made without a server.
func evidence(t *testing.T) passkey.Evidence {
	t.Helper()
	site, err := passkey.SiteOf("https://tools.example.com")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := passkey.Open(filepath.Join(t.TempDir(), "key"), site, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	lena, nonce := record.Principal{Issuer: "https://idp", Subject: "lena"}, bytes.Repeat([]byte{1}, 32)
	device := passkeytest.New(site.RPID, site.Origin)
	message, _ := device.Create(nonce)
	key, _, err := keys.Enrol(message, nonce, record.Passkey{Tenant: "acme", Person: lena, Name: "laptop", Added: at})
	if err != nil {
		t.Fatal(err)
	}
	arguments := json.RawMessage(`{"amount":"900.00","to":"acc_7"}`)
	c := record.Call{Owner: record.Owner{Tenant: "acme", Principal: record.Principal{Issuer: "https://idp", Subject: "anna"}, Agent: "bot"}, ID: "call_1", Run: "run_1",
		Tool: record.ToolRef{Name: "pay", Version: canon.Of("v"), Pin: canon.Of("p")}, Arguments: arguments, Digest: record.ArgumentDigest(arguments, nil)}
	rule := record.ApprovalRule{Parts: []record.ApprovalPart{{From: "registry", Quorum: 1, People: []record.Principal{lena}}}, Expires: time.Hour, Passkey: true}
	q := record.Approval{ID: "apr_1", Rule: rule, Expires: at.Add(time.Hour), Binding: record.BindingOf(c, &rule, at.Add(time.Hour), "")}
	challenge := record.AnswerChallenge(q.Binding, q.ID, record.Yes)
	proof, err := passkey.Read(device.Sign(challenge[:]))
	if err != nil {
		t.Fatal(err)
	}
	proof.Passkey = key
	r := record.Reply{Person: lena, Word: record.Yes, Binding: q.Binding, At: at, Proof: &proof}
	proof.Seal = keys.Seal(r.Sealable("acme", q.ID))
	q.Answers = []record.Reply{r}
	return keys.Evidence(c, q)
}

// Evidence is verified from its file: no server, no credential, no configuration.
func TestVerifyEvidence(t *testing.T) {
	e := evidence(t)
	file := filepath.Join(t.TempDir(), "evidence.json")
	verify := func(e passkey.Evidence, args ...string) (int, string) {
		text, err := json.MarshalIndent(e, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		code := run(context.Background(), append([]string{"approvals", "verify", file}, args...), strings.NewReader(""), &out, &out, func(string) (string, bool) { return "", false })
		return code, out.String()
	}
	if code, out := verify(e); code != 0 || !strings.Contains(out, "Verified: apr_1") || !strings.Contains(out, "lena") || !strings.Contains(out, "900.00") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := verify(e, "--key", passkey.Fingerprint(e.Key), "--site", "https://tools.example.com"); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := verify(e, "--key", "sha256:00"); code != exitNo || !strings.Contains(out, "another key") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := verify(e, "--site", "https://other.example.com"); code != exitNo || !strings.Contains(out, "signed at") {
		t.Errorf("%d\n%s", code, out)
	}
	e.Of.Arguments = json.RawMessage(`{"amount":"9000.00","to":"acc_7"}`)
	if code, out := verify(e); code != exitNo || !strings.Contains(out, "not verified") {
		t.Errorf("%d\n%s", code, out)
	}
}
