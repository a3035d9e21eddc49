package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

// serverFlags say which server to speak to, and as whom.
type serverFlags struct {
	configFlag
	Server string `placeholder:"URL" help:"The server (default: as the configuration says)."`
	Token  string `placeholder:"TOKEN" help:"Token, or - to read it from standard input (default: PLACET_TOKEN). PLACET_WORKLOAD_KEY is sent beside it."`
}

// client speaks to a server's /v1.
type client struct {
	base   string
	token  string
	key    string
	http   *http.Client
	stdin  io.Reader
	stdout io.Writer
}

func (p *program) client(f serverFlags) (*client, error) {
	c := &client{base: trimURL(f.Server), token: f.Token, stdin: p.stdin, stdout: p.stdout,
		// A redirect would carry the token to where nobody configured it to go.
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if c.base == "" {
		cfg, err := f.load()
		if err != nil {
			return nil, err
		}
		c.base = cfg.PublicURL
	}
	if err := secure(c.base); err != nil {
		return nil, err
	}
	switch {
	case c.token == "-":
		text, err := io.ReadAll(io.LimitReader(p.stdin, 64<<10))
		if err != nil {
			return nil, err
		}
		c.token = strings.TrimSpace(string(text))
	case c.token == "":
		c.token, _ = p.env("PLACET_TOKEN")
	}
	c.key, _ = p.env("PLACET_WORKLOAD_KEY")
	if c.token == "" && c.key == "" {
		return nil, record.Errorf(record.Unauthenticated, "no credential; set PLACET_TOKEN or PLACET_WORKLOAD_KEY, or use --token. For a development server: placet dev token --user NAME")
	}
	return c, nil
}

// secure refuses to send a credential in the clear beyond this machine.
func secure(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return record.Errorf(record.Invalid, "%q is not the URL of a server, such as https://tools.example.com", base)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return record.Errorf(record.Invalid, "%s would carry the token in the clear; use https", base)
	}
	return nil
}

// mostAnswer bounds what is read of an answer: a page of calls with their results.
const mostAnswer = 64 << 20

// ask sends one request and decodes the answer into out. A problem is an error.
func (c *client) ask(ctx context.Context, method, path string, query url.Values, body, out any) error {
	r, err := c.send(ctx, method, path, query, body, nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, mostAnswer))
	if err != nil {
		return record.Because(record.Unavailable, err, "the answer of %s broke off", c.base)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return record.Because(record.Unavailable, err, "%s answers something that is no Placet's answer", c.base)
	}
	return nil
}

// send sends one request. What comes back is an answer: problems are errors.
func (c *client) send(ctx context.Context, method, path string, query url.Values, body any, header http.Header) (*http.Response, error) {
	var text io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(encoded)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, text)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.GetBody = nil // a proposal is never sent twice
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.key != "" {
		r.Header.Set("Placet-Workload", c.key)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, unreachable(method, c.base, err)
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		return nil, problemOf(c.base, res)
	}
	return res, nil
}

// unreachable leaves out what url.Error quotes of the request.
func unreachable(method, base string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dial *net.OpError
	if method == http.MethodPost && !(errors.As(err, &dial) && dial.Op == "dial") {
		return record.Because(record.Unavailable, err, "%s gave no answer; what was asked may have happened, so look before you ask again", base)
	}
	return record.Because(record.Unavailable, err, "%s does not answer; is the server running", base)
}

// problemOf reads a refusal.
func problemOf(base string, res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	r := &refused{}
	if err != nil || kind != "application/problem+json" || json.Unmarshal(text, &r.Problem) != nil || r.Detail == "" {
		return record.Errorf(record.Unavailable, "%s answers with status %d and no reason; is it a Placet server", base, res.StatusCode)
	}
	return r
}

// exit is the exit code of a refusal: that of its kind, or that of a denial.
func (r *refused) exit() int {
	if r.Verdict != "" {
		return exitNo
	}
	if slices.Contains(record.Kinds(), record.Kind(r.Code)) {
		return record.SurfaceOf(record.Kind(r.Code)).Exit
	}
	for _, k := range record.Kinds() {
		if record.SurfaceOf(k).HTTP == r.Status {
			return record.SurfaceOf(k).Exit
		}
	}
	return record.SurfaceOf(record.Invalid).Exit
}

// answered prints the boundary's answer to a proposal or dispatch.
func (p *program) answered(a api.Answer) error {
	err := p.out(a, func() {
		p.say("%s", a.Text)
		if a.Text == "" {
			p.say("%s", a.State)
		}
		if len(a.Result) > 0 {
			p.say("%s", safe(string(a.Result)))
		}
		var parts []string
		for _, part := range []struct{ name, value string }{{"call", string(a.Call)}, {"state", string(a.State)}, {"code", string(a.Code)}, {"approval", string(a.Approval)}} {
			if part.value != "" {
				parts = append(parts, part.name+" "+part.value)
			}
		}
		p.say("(%s)", safe(strings.Join(parts, ", ")))
	})
	if err != nil {
		return err
	}
	if !settled(a.State) {
		return &verdict{code: exitWaiting, quiet: true}
	}
	return nil
}

// settled reports whether nothing is to be waited for.
func settled(s record.State) bool { return s == record.None || s.Terminal() }

// field prints one line of a description, if there is anything to say.
func (p *program) field(name, value string) {
	if value != "" {
		p.say("%-12s %s", name, safe(value))
	}
}

func shortTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" && pairs[i+1] != "0" && pairs[i+1] != "false" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

func id(prefix, given string) (string, error) {
	if !record.ValidID(prefix, given) {
		return "", record.Errorf(record.Invalid, "%q is not an ID like %s_…", given, prefix)
	}
	return url.PathEscape(given), nil
}
