package placet

import (
	"net/http"

	"github.com/placet-dev/placet/credential"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/verify"
)

// signer makes dispatch tokens of the work that the boundary hands out.
type signer struct{ keys *credential.Signer }

var _ dispatch.Signer = signer{}

// Sign implements dispatch.Signer.
func (s signer) Sign(w dispatch.Work) (string, error) {
	audience, err := credential.Audience(w.Server.Name, w.Server.URL)
	if err != nil {
		return "", err
	}
	return s.keys.Sign(credential.Claims{
		Audience: audience, Owner: w.Owner, Run: w.Run, Call: w.Call, Attempt: w.Attempt, Tool: w.Tool.Offered(),
		Arguments: w.Arguments, Input: w.Input, Targets: w.Targets, Key: w.Key, Lease: w.Lease,
	})
}

// openSigner reads the keys of dispatch tokens, which lie beside the store, or derives
// them.
func (o Options) openSigner(s secret) (*credential.Signer, error) {
	with := credential.Options{Issuer: o.Config.PublicURL, Clock: o.Clock, Random: o.Random, Log: o.Log}
	key, err := s.key("dispatch-tokens")
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return credential.Open(o.Config.StorePath()+".dispatch-keys", with)
	}
	return credential.Derive(key, with)
}

// mountKeys publishes the keys for tool servers. They are public.
func mountKeys(mux *http.ServeMux, keys *credential.Signer) { mux.Handle(verify.KeysPath, keys) }
