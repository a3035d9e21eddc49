package credential

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
)

// granted is what a token endpoint answered (RFC 6749 section 5.1, RFC 8693
// section 2.2.1).
type granted struct {
	token   Secret
	kind    string // token_type
	issued  string // issued_token_type
	lasts   time.Duration
	dated   bool // it says how long it lasts
	scopes  []string
	scoped  bool // it says which scopes it has
	refresh Secret
}

const tokenBytes = 32 << 10

// readGranted reads an answer strictly: a member that occurs twice would let two
// readers see two tokens.
func readGranted(text []byte) (granted, error) {
	object, _, err := canon.Object(text, canon.Limits{Bytes: answerBytes})
	if err != nil {
		return granted{}, refused("its answer is not one JSON object")
	}
	g := granted{
		token: Secret(member(object, "access_token")), kind: member(object, "token_type"),
		issued: member(object, "issued_token_type"), refresh: Secret(member(object, "refresh_token")),
	}
	if !isToken(g.token.Reveal()) || g.refresh != "" && !isToken(g.refresh.Reveal()) {
		return granted{}, refused("its answer holds no token that could be sent")
	}
	if value, ok := canon.Lookup(object, "expires_in"); ok {
		digits, isText := canon.Text(value) // some issuers quote it
		if !isText {
			digits = string(value)
		}
		seconds, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || seconds < 0 {
			return granted{}, refused("its answer has an expires_in that is no number of seconds")
		}
		g.lasts, g.dated = time.Duration(seconds)*time.Second, true
	}
	if value, ok := canon.Lookup(object, "scope"); ok {
		text, isText := canon.Text(value)
		if !isText && string(value) != "null" {
			return granted{}, refused("its answer has a scope that is no text")
		}
		g.scopes, g.scoped = strings.Fields(text), isText
	}
	return g, nil
}

// isToken reports whether a text can be a bearer token (RFC 6750 section 2.1).
func isToken(s string) bool {
	if s == "" || len(s) > tokenBytes {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' || s[i] == ',' {
			return false
		}
	}
	return true
}

const (
	accessTokenType  = "urn:ietf:params:oauth:token-type:access_token"
	refreshTokenType = "urn:ietf:params:oauth:token-type:refresh_token"
	jwtTokenType     = "urn:ietf:params:oauth:token-type:jwt"
)

// checkBearer refuses what is not a token to be sent as Bearer, such as N_A.
func (g granted) checkBearer() error {
	if !strings.EqualFold(g.kind, "Bearer") {
		return refused("it issued a token of another type than Bearer")
	}
	return nil
}

// checkExchanged is what RFC 8693 section 2.2.1 asks of an answer, and that it is
// not the caller's own token come back: that one is never forwarded.
func (g granted) checkExchanged(subject Secret) error {
	switch {
	case g.issued != accessTokenType && g.issued != jwtTokenType:
		return refused("it issued something other than an access token (issued_token_type)")
	case g.token == subject:
		return refused("it answered with the caller's own token")
	}
	return nil
}

// checkScopes refuses more than was asked for. Where nothing was asked for, the
// issuer's own default is what the operator chose. Entra's name/.default stands for
// every scope of that name.
func (g granted) checkScopes(wanted, also []string) error {
	if len(wanted) == 0 || !g.scoped {
		return nil
	}
	for _, s := range g.scopes {
		ok := slices.Contains(wanted, s) || slices.Contains(also, s) || slices.ContainsFunc(wanted, func(w string) bool {
			all, isDefault := strings.CutSuffix(w, ".default")
			return isDefault && strings.HasPrefix(s, all)
		})
		if !ok {
			return refused("it issued a token with more scopes than were asked for; if it always adds some, name them in also_scopes")
		}
	}
	return nil
}

// ends says when the token ends, by its answer or, failing that, by its own claims.
func (g granted) ends(now time.Time, most time.Duration) (time.Time, error) {
	ends := now.Add(g.lasts)
	if claimed, ok := expiryOf(claimsOf(g.token)); ok && (!g.dated || claimed.Before(ends)) {
		ends, g.dated = claimed, true
	}
	switch {
	case !g.dated && most == 0:
		return ends, refused("it does not say when the token ends; set max_age for this profile")
	case most > 0 && (!g.dated || ends.After(now.Add(most))):
		ends = now.Add(most)
	}
	if !now.Before(ends) {
		return ends, refused("it issued a token that has ended")
	}
	return ends, nil
}

// checkAudience refuses a token that can be read and is for others. A token that
// cannot be read is its server's to check.
func (g granted) checkAudience(wanted []string) error {
	value, ok := canon.Lookup(claimsOf(g.token), "aud")
	if !ok || len(wanted) == 0 {
		return nil
	}
	has := map[string]bool{}
	if one, isText := canon.Text(value); isText {
		has[one] = true
	} else if len(value) > 0 && value[0] == '[' {
		for e := range canon.Elements(value) {
			text, _ := canon.Text(e)
			has[text] = true
		}
	}
	for _, w := range wanted {
		if !has[w] {
			return refused("it issued a token for another audience than was asked for")
		}
	}
	return nil
}

// claimsOf reads a JWT's claims without verifying them, or nil. They are only ever
// a reason to refuse.
func claimsOf(token Secret) []byte {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	object, _, err := canon.Object(text, canon.Limits{Bytes: tokenBytes})
	if err != nil {
		return nil
	}
	return object
}

func expiryOf(claims []byte) (time.Time, bool) {
	value, ok := canon.Lookup(claims, "exp")
	seconds, err := strconv.ParseFloat(string(value), 64)
	if !ok || err != nil || seconds < 0 || seconds > 253402300799 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}
