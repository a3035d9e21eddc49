package connect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
	"golang.org/x/oauth2"
)

// grant is what an issuer gave for one server: the content of a file.
type grant struct {
	Server             string    `json:"server"`
	Issuer             string    `json:"issuer"`
	Resource           string    `json:"resource"`
	Ask                string    `json:"ask,omitempty"` // the parameter that names it, if not resource
	Client             client    `json:"client"`
	TokenEndpoint      string    `json:"token_endpoint"`
	RevocationEndpoint string    `json:"revocation_endpoint,omitempty"`
	Scopes             []string  `json:"scopes,omitempty"`
	Access             string    `json:"access_token"`
	Refresh            string    `json:"refresh_token,omitempty"`
	Expires            time.Time `json:"expires_at,omitzero"`
	Saved              time.Time `json:"saved_at"`

	fresh   bool // from a sign-in of this process
	renewed bool // refreshed because the server refused the token before
}

// client is who asks an issuer for tokens.
type client struct {
	ID       string `json:"id"`
	Secret   string `json:"secret,omitempty"`
	Method   string `json:"auth_method"`
	Redirect string `json:"redirect_uri,omitempty"` // where we registered it ourselves
}

func (g *grant) config(redirect string) *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if g.Client.Method == "client_secret_basic" {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{ClientID: g.Client.ID, ClientSecret: g.Client.Secret, RedirectURL: redirect,
		Endpoint: oauth2.Endpoint{TokenURL: g.TokenEndpoint, AuthStyle: style}}
}

// target names the server to the issuer: as a resource (RFC 8707), or as other
// issuers want it.
func (g *grant) target() []oauth2.AuthCodeOption {
	switch g.Ask {
	case "none":
		return nil
	case "audience":
		return []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("audience", g.Resource)}
	}
	return []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", g.Resource)}
}

// others are the rights of everybody but the owner.
const others = 0o077

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:12])
}

// path is one file for each server, issuer and client.
func (a *account) path(g *grant) string {
	return filepath.Join(a.Folder, digest(g.Server)+"-"+digest(g.Issuer, g.Client.ID)+".json")
}

// paths are the files of this server.
func (a *account) paths() ([]string, error) {
	if a.Folder == "" {
		return nil, nil
	}
	return filepath.Glob(filepath.Join(escapeGlob(a.Folder), digest(a.server.String())+"-*.json"))
}

func escapeGlob(folder string) string {
	if runtime.GOOS == "windows" {
		return folder // there is no escape; a name with [ finds nothing
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(folder)
}

// load finds the newest grant for this server that its configured client may use;
// nil if there is none.
func (a *account) load() (*grant, error) {
	paths, err := a.paths()
	if err != nil {
		return nil, err
	}
	var newest *grant
	for _, path := range paths {
		g, err := readGrant(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		mine := a.ClientID == "" || g.Client.ID == a.ClientID
		if g.Server == a.server.String() && mine && (newest == nil || g.Saved.After(newest.Saved)) {
			newest = g
		}
	}
	return newest, nil
}

// readGrant reads a file that only its owner can read. On Windows its folder's
// rights protect it: the user's own configuration.
func readGrant(path string) (*grant, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || runtime.GOOS != "windows" && info.Mode().Perm()&others != 0 {
		return nil, record.Errorf(record.Forbidden, "%s can be read by others, who may have its tokens: sign out, which removes it, and in again", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, err
	}
	g := &grant{}
	if err := json.Unmarshal(text, g); err != nil {
		return nil, record.Errorf(record.Invalid, "%s is not a stored sign-in; sign out, which removes it, and in again", path)
	}
	return g, nil
}

// save writes the file beside and moves it into place, so that whoever reads finds
// the old one or the new one.
func (a *account) save(g *grant) error {
	if a.Folder == "" {
		return nil
	}
	if err := a.private(); err != nil {
		return err
	}
	g.Saved = a.Clock().UTC()
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(a.Folder, ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone once it is moved
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), a.path(g))
}

// private makes the folder, or refuses one that others can look into.
func (a *account) private() error {
	if err := os.MkdirAll(a.Folder, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(a.Folder)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&others != 0 {
		return record.Errorf(record.Forbidden, "the folder %s is open to others; make it private with chmod 700", a.Folder)
	}
	return nil
}

// forget removes a grant's file.
func (a *account) forget(g *grant) error {
	if a.Folder == "" {
		return nil
	}
	if err := os.Remove(a.path(g)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Logout removes what is stored for the server, and has issuers that offer it
// revoke the tokens (RFC 7009). It says how many sign-ins it removed; they are
// removed also when an issuer could not be told, which is the error.
func (b *Bridge) Logout(ctx context.Context) (int, error) { return b.account.logout(ctx) }

func (a *account) logout(ctx context.Context) (int, error) {
	paths, err := a.paths()
	if err != nil {
		return 0, err
	}
	removed := 0
	var untold error
	for _, path := range paths {
		g, err := readGrant(path)
		if rm := os.Remove(path); rm != nil {
			return removed, rm
		}
		removed++
		if err == nil {
			err = a.revoke(ctx, g)
		}
		untold = errors.Join(untold, err)
	}
	return removed, untold
}

// revoke has the issuer end the tokens. Its token goes with the refresh token at
// most issuers (RFC 7009 section 2.1), but not at all.
func (a *account) revoke(ctx context.Context, g *grant) error {
	if g.RevocationEndpoint == "" {
		return nil
	}
	if _, err := endpoint(g.RevocationEndpoint); err != nil {
		return err
	}
	for _, t := range []struct{ hint, value string }{{"refresh_token", g.Refresh}, {"access_token", g.Access}} {
		if t.value == "" {
			continue
		}
		form := url.Values{"token": {t.value}, "token_type_hint": {t.hint}}
		if g.Client.Method != "client_secret_basic" {
			form.Set("client_id", g.Client.ID)
			if g.Client.Secret != "" {
				form.Set("client_secret", g.Client.Secret)
			}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.RevocationEndpoint, strings.NewReader(form.Encode()))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if g.Client.Method == "client_secret_basic" {
			req.SetBasicAuth(url.QueryEscape(g.Client.ID), url.QueryEscape(g.Client.Secret))
		}
		resp, err := a.http.Do(req)
		if err != nil {
			return record.Because(record.Unavailable, err, "removed here; %s could not be told", g.Issuer)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return record.Errorf(record.Unavailable, "removed here; %s did not revoke the token (HTTP status %d)", g.Issuer, resp.StatusCode)
		}
	}
	return nil
}

// Login signs the user in now, where no token is held or the one there is cannot
// be refreshed any more.
func (b *Bridge) Login(ctx context.Context) error {
	a := b.account
	a.life = ctx
	defer a.work.Wait()
	held, err := a.token(ctx)
	if err != nil || held != "" {
		return err
	}
	return a.renew(ctx, "", challenge{})
}
