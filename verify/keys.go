package verify

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// How long fetched keys are good. An issuer publishes a key ten minutes before it
// signs with it, so a refresh every five knows each key in time.
const (
	keysFresh = 5 * time.Minute // then they are fetched again
	keysStale = time.Hour       // then they count no more, if they cannot be
	keysPause = 5 * time.Second // between two attempts, whatever tokens come
	keysWait  = 5 * time.Second // for one
	keysBytes = 64 << 10
)

// keys are an issuer's public keys.
type keys struct {
	url   string // empty: they are given
	http  *http.Client
	clock func() time.Time
	turn  chan struct{} // holds one token: whoever has it may fetch

	mu      sync.Mutex
	byID    map[string]ed25519.PublicKey
	fetched time.Time
	tried   time.Time
}

func newKeys(o Options) (*keys, error) {
	k := &keys{url: o.JWKS, http: o.HTTP, clock: o.Clock, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	if o.Keys != nil {
		var err error
		if k.byID, err = parseKeys(o.Keys); err != nil {
			return nil, fmt.Errorf("verify: Keys: %w", err)
		}
		return k, nil
	}
	if k.url == "" {
		k.url = o.Issuer + KeysPath
	}
	u, err := url.Parse(k.url)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, errors.New("verify: keys are fetched over https, or over http from this machine")
	}
	if k.http == nil {
		k.http = &http.Client{Timeout: keysWait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return k, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// get returns the key with this ID. Keys are fetched when it is not known or they
// are old, but never more often than keysPause allows: anybody can send a token
// with an ID that nobody knows.
func (k *keys) get(ctx context.Context, id string) (ed25519.PublicKey, error) {
	if key, state := k.look(id); state == fresh {
		return key, nil
	}
	if k.url != "" {
		select {
		case <-k.turn:
		case <-ctx.Done():
			return nil, cannot("the issuer's keys cannot be fetched", ctx.Err())
		}
		err := k.refresh(ctx, id)
		k.turn <- struct{}{}
		if key, state := k.look(id); state != unusable {
			return key, nil
		}
		if err != nil {
			return nil, cannot("the issuer's keys cannot be fetched", err)
		}
	}
	return nil, refuse(BadToken, "it is signed by a key that the issuer does not publish")
}

type state int

const (
	unusable state = iota
	old            // good while a newer set cannot be had
	fresh
)

func (k *keys) look(id string) (ed25519.PublicKey, state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, known := k.byID[id]
	age := k.clock().Sub(k.fetched)
	switch {
	case !known || k.url != "" && age >= keysStale:
		return nil, unusable
	case k.url != "" && age >= keysFresh:
		return key, old
	}
	return key, fresh
}

var errPause = errors.New("they were asked for a moment ago")

// refresh fetches the keys if they are needed and it is time. The caller has the turn.
func (k *keys) refresh(ctx context.Context, id string) error {
	if _, now := k.look(id); now == fresh {
		return nil // somebody else has
	}
	now := k.clock()
	k.mu.Lock()
	soon, have := now.Sub(k.tried) < keysPause, now.Sub(k.fetched) < keysFresh
	if !soon {
		k.tried = now
	}
	k.mu.Unlock()
	if soon {
		if have {
			return nil // the set is new, and the key is not in it
		}
		return errPause
	}
	// The fetch is for everybody who waits: it does not end with one of them.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), keysWait)
	defer stop()
	byID, err := k.fetch(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.byID, k.fetched = byID, now
	k.mu.Unlock()
	return nil
}

func (k *keys) fetch(ctx context.Context) (map[string]ed25519.PublicKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer answered HTTP status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, keysBytes+1))
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}

// parseKeys takes the Ed25519 keys of a set, which must have IDs, each its own.
func parseKeys(text []byte) (map[string]ed25519.PublicKey, error) {
	var set jose.JSONWebKeySet
	if len(text) > keysBytes {
		return nil, errors.New("the key set is too large")
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("not a JSON Web Key Set")
	}
	out := map[string]ed25519.PublicKey{}
	for _, k := range set.Keys {
		public, ok := k.Key.(ed25519.PublicKey)
		if !ok || k.Algorithm != "" && k.Algorithm != string(jose.EdDSA) || k.Use != "" && k.Use != "sig" {
			continue
		}
		if _, twice := out[k.KeyID]; twice || k.KeyID == "" {
			return nil, errors.New("the key set has a key without an ID, or two with one")
		}
		out[k.KeyID] = public
	}
	if len(out) == 0 {
		return nil, errors.New("the key set has no Ed25519 key")
	}
	return out, nil
}
