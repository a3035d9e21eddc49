package identity

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/c2sp/wycheproof"
)

// refused is why a valid signature of Wycheproof's does not count here.
var refused = map[string]string{
	"symmetric": "whoever can verify such a token can also make one",
	"other alg": "the key is published for another algorithm than the token names (RFC 7517 section 4.4); one figure of RFC 7520 spells it ES521",
}

// Every JWS case of Wycheproof goes the way that a token's signature goes: the case's
// key through the reader of key sets, the text through the reader of tokens, the
// choice of a key, and the check of the signature. Only what is claimed is left out, since
// these payloads are no claims. No invalid one is taken, and each valid one that
// is refused is refused for a reason that is stated.
func TestWycheproof(t *testing.T) {
	text, err := fs.ReadFile(wycheproof.TestVectors, "json_web_signature_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		NumberOfTests int
		TestGroups    []struct {
			Comment         string
			Public, Private json.RawMessage
			Tests           []struct {
				TcID         int
				Comment, JWS string
				Result       string
			}
		}
	}
	if err := json.Unmarshal(text, &suite); err != nil {
		t.Fatal(err)
	}
	tried, taken, left := 0, 0, map[string]int{}
	for _, g := range suite.TestGroups {
		key := g.Public
		if key == nil {
			key = g.Private // a symmetric one, which has no public half
		}
		for _, c := range g.Tests {
			tried++
			err := wycheproofCase(key, c.JWS)
			switch {
			case c.Result == "invalid" && err == nil:
				t.Errorf("case %d of %s (%s): invalid, and taken", c.TcID, g.Comment, c.Comment)
			case c.Result == "valid" && err == nil:
				taken++
			case c.Result == "valid":
				why := reasonOf(t, key, c.JWS)
				if refused[why] == "" {
					t.Errorf("case %d of %s (%s): valid, and refused: %v", c.TcID, g.Comment, c.Comment, err)
				}
				left[why]++
			case c.Result != "invalid":
				t.Errorf("case %d: result %q", c.TcID, c.Result)
			}
		}
	}
	if tried != suite.NumberOfTests || tried < 400 || taken < 15 {
		t.Errorf("%d cases of %d, %d taken", tried, suite.NumberOfTests, taken)
	}
	t.Logf("%d cases; %d valid ones taken, refused for a stated reason: %v", tried, taken, left)
}

// wycheproofCase takes any algorithm that can be configured, and the one key.
func wycheproofCase(key json.RawMessage, jws string) error {
	keys, err := parseKeys([]byte(`{"keys":[`+string(key)+`]}`), algorithms)
	if err != nil {
		return err
	}
	t, err := takeApart(jws)
	if err != nil {
		return err
	}
	if !slices.Contains(algorithms, t.algorithm) {
		return refuse(checkAlgorithm, "", "not configured")
	}
	found := pick(keys, t.key, t.algorithm)
	if len(found) != 1 {
		return refuse(checkKey, "", "no key fits")
	}
	_, err = signedBy(found, jws, Issuer{Algorithms: algorithms}.signatureAlgorithms())
	return err
}

// reasonOf finds out from the case itself, not from our answer.
func reasonOf(t *testing.T, key json.RawMessage, jws string) string {
	t.Helper()
	var k struct{ Kty, Alg string }
	if err := json.Unmarshal(key, &k); err != nil {
		t.Fatal(err)
	}
	if k.Kty == "oct" {
		return "symmetric"
	}
	encoded, _, _ := strings.Cut(jws, ".")
	text, err := strict.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	var header struct{ Alg string }
	if err := json.Unmarshal(text, &header); err != nil {
		t.Fatal(err)
	}
	if k.Alg != "" && k.Alg != header.Alg {
		return "other alg"
	}
	return "unknown"
}
