package main

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/identity"
)

// issuer is who signs the tokens of one side, and the live source of those who are
// away: it exchanges a caller's token for one that lasts, and says at each use of that
// who the caller is. It lives as long as the harness does, and is silent now and then.
type issuer struct {
	local    *identity.Local
	audience string
	calm     atomic.Bool // it always answers
	silences atomic.Int64

	mu     sync.Mutex
	chance *rand.Rand
}

const (
	exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
	refreshType   = "urn:ietf:params:oauth:token-type:refresh_token"
	lasting       = "chaos-lasting-" // begins what it gives for those who are away
)

// ServeHTTP is the metadata and the token endpoint.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(status int, body map[string]any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // who is gone hears nothing
	}
	if !strings.HasSuffix(r.URL.Path, "/token") {
		answer(http.StatusOK, map[string]any{"issuer": i.local.Name(), "token_endpoint": i.local.Name() + "/token"})
		return
	}
	if i.silent() {
		answer(http.StatusServiceUnavailable, map[string]any{"error": "temporarily_unavailable"})
		return
	}
	switch subject := r.FormValue("subject_token"); r.FormValue("grant_type") {
	case exchangeGrant:
		who, ok := subjectOf(subject)
		if !ok {
			answer(http.StatusBadRequest, map[string]any{"error": "invalid_request"})
			return
		}
		answer(http.StatusOK, map[string]any{"access_token": lasting + who, "issued_token_type": refreshType, "token_type": "N_A", "expires_in": 86400})
	case "refresh_token":
		who, ok := strings.CutPrefix(r.FormValue("refresh_token"), lasting)
		if !ok {
			answer(http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		text, err := i.local.Sign(identity.TokenSpec{Audience: i.audience, Subject: who, Tenant: "dev", Agent: "bot", Scopes: []string{"act"}, TTL: 10 * time.Minute})
		if err != nil {
			answer(http.StatusInternalServerError, map[string]any{"error": "server_error"})
			return
		}
		answer(http.StatusOK, map[string]any{"access_token": text, "token_type": "Bearer", "expires_in": 600, "scope": "act", "refresh_token": r.FormValue("refresh_token")})
	default:
		answer(http.StatusBadRequest, map[string]any{"error": "unsupported_grant_type"})
	}
}

func (i *issuer) silent() bool {
	if i.calm.Load() {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.chance.IntN(10) > 0 {
		return false
	}
	i.silences.Add(1)
	return true
}

// subjectOf reads a token of this issuer's own. Only servers of the run reach it, and
// they have verified what they show.
func subjectOf(token string) (string, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", false
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	return claims.Subject, json.Unmarshal(text, &claims) == nil && claims.Subject != ""
}
