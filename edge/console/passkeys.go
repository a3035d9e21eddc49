package console

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

// signForm is what a page's script asks a passkey to sign.
type signForm struct {
	Challenge string
	Allow     string // the IDs of the person's passkeys, one after another
}

var b64 = base64.RawURLEncoding

// signForm is for a yes to a question; nil if the person has no passkey.
func (c *Console) signForm(ctx context.Context, v viewer, q record.Approval) (*signForm, error) {
	have, err := c.o.Boundary.Passkeys(ctx, v.person)
	if err != nil || len(have) == 0 {
		return nil, err
	}
	challenge := record.AnswerChallenge(q.Binding, q.ID, record.Yes)
	return &signForm{b64.EncodeToString(challenge[:]), allow(have)}, nil
}

func allow(have []record.Passkey) string {
	var ids []string
	for _, p := range have {
		ids = append(ids, b64.EncodeToString(p.ID))
	}
	return strings.Join(ids, " ")
}

// passkeysView is a person's own passkeys.
type passkeysView struct {
	Have  []passkeyRow
	Fresh bool   // they signed in just now, and may change something
	Told  bool   // the provider says when that was
	Full  bool   // they have as many as one may have
	Nonce string // of the next change
	Allow string
	User  string // what the passkey calls the person: says nothing to others
	Name  string
}

type passkeyRow struct {
	ID, Name    string
	Added, Used time.Time
	Challenge   string
}

// ceremonyLasts is how long a page for changing passkeys can be used.
const ceremonyLasts = 10 * time.Minute

// ceremony is the nonce of the session's next change of passkeys. It stays the same
// until it is used, so that two open pages both work, one of them once.
func (c *Console) ceremony(ctx context.Context, s *session) (nonce []byte, err error) {
	s.mu.Lock()
	nonce, until := s.nonce, s.until
	s.mu.Unlock()
	now := c.o.Clock()
	if len(nonce) > 0 && now.Before(until) {
		return nonce, nil
	}
	err = c.sessions.keep.change(ctx, s, now, func() error {
		if len(s.nonce) == 0 || !now.Before(s.until) {
			text, err := c.sessions.secret()
			if err != nil {
				return err
			}
			if s.nonce, err = b64.DecodeString(text); err != nil {
				return err
			}
			s.until = now.Add(ceremonyLasts)
		}
		nonce = s.nonce
		return nil
	})
	return nonce, err
}

// change is what a posted change of passkeys rests on. Its nonce is used up.
func (c *Console) change(v viewer, r *http.Request) (out dispatch.PasskeyChange, err error) {
	s, now := v.session, c.o.Clock()
	err = c.sessions.keep.change(r.Context(), s, now, func() error {
		out = dispatch.PasskeyChange{SignedIn: s.asked, Confirmed: []byte(r.PostForm.Get("passkey"))}
		if now.Before(s.until) {
			out.Nonce = s.nonce
		}
		s.nonce = nil
		return nil
	})
	return out, err
}

// fresh is how long after a sign-in the page offers changes: a little less than the
// boundary takes them.
const fresh = 4 * time.Minute

func (c *Console) passkeys(w http.ResponseWriter, r *http.Request, v viewer) error {
	have, err := c.o.Boundary.Passkeys(r.Context(), v.person)
	if err != nil {
		return err
	}
	nonce, err := c.ceremony(r.Context(), v.session)
	if err != nil {
		return err
	}
	who := v.person.Principal()
	user := canon.Of("placet/passkey-user/1", []byte(v.person.Tenant()), []byte(who.Issuer), []byte(who.Subject))
	view := passkeysView{Told: !v.session.asked.IsZero(), Fresh: c.o.Clock().Sub(v.session.asked) < fresh, Full: len(have) >= record.MaxPasskeys,
		Nonce: b64.EncodeToString(nonce), Allow: allow(have), User: b64.EncodeToString(user[:]), Name: v.Name()}
	for _, p := range have {
		view.Have = append(view.Have, passkeyRow{ID: b64.EncodeToString(p.ID), Name: p.Name, Added: p.Added, Used: p.Used,
			Challenge: b64.EncodeToString(dispatch.RemovalChallenge(nonce, p.ID))})
	}
	return c.showTo(w, r, http.StatusOK, "passkeys", page{Title: "Your passkeys", Body: view, Passkeys: passkeyPath}, v)
}

func (c *Console) addPasskey(w http.ResponseWriter, r *http.Request, v viewer) error {
	change, err := c.change(v, r)
	if err != nil {
		return err
	}
	_, err = c.o.Boundary.AddPasskey(r.Context(), v.person, change, r.PostForm.Get("name"), []byte(r.PostForm.Get("created")))
	return c.changed(w, r, err)
}

func (c *Console) removePasskey(w http.ResponseWriter, r *http.Request, v viewer) error {
	id, err := b64.DecodeString(r.PathValue("id"))
	if err != nil {
		return absent()
	}
	change, err := c.change(v, r)
	if err != nil {
		return err
	}
	return c.changed(w, r, hide(c.o.Boundary.RemovePasskey(r.Context(), v.person, change, id)))
}

func (c *Console) changed(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil {
		http.Redirect(w, r, home+"/passkeys", http.StatusSeeOther)
	}
	return err
}
