package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/placet-dev/placet/record"
)

// serverFlags say which server to speak to, and as whom.
type serverFlags struct {
	configFlag
	Server string `placeholder:"URL" help:"The server (default: as the configuration says, or where you signed in last)."`
	Folder string `name:"login-folder" placeholder:"DIR" help:"Where placet login stores sign-ins (default: placet/login in your configuration folder)."`
	Token  string `placeholder:"TOKEN" help:"Token, or - to read it from standard input (default: PLACET_TOKEN, then your placet login). PLACET_WORKLOAD_KEY is sent beside it, and the certificate of PLACET_CERTIFICATE and PLACET_CERTIFICATE_KEY shown."`
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

// newHTTP follows no redirect: it would carry the token to where nobody configured
// it to go.
func newHTTP() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (p *program) client(ctx context.Context, f serverFlags) (*client, error) {
	c := &client{token: f.Token, stdin: p.stdin, stdout: p.stdout, http: newHTTP()}
	var err error
	if c.base, err = f.server(); err != nil {
		return nil, err
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
	certified, err := p.certified(c.http)
	if err != nil {
		return nil, err
	}
	if c.token == "" && c.key == "" && !certified {
		if c.token, err = f.login(ctx, c.base); err != nil {
			return nil, err
		}
		if c.token == "" {
			return nil, nobody(c.base)
		}
	}
	return c, nil
}

// certified has a client show the certificate of the environment, if there is one.
func (p *program) certified(c *http.Client) (bool, error) {
	file, _ := p.env("PLACET_CERTIFICATE")
	if file == "" {
		return false, nil
	}
	key, _ := p.env("PLACET_CERTIFICATE_KEY")
	pair, err := tls.LoadX509KeyPair(file, key)
	if err != nil {
		return false, record.Because(record.Invalid, err, "PLACET_CERTIFICATE and PLACET_CERTIFICATE_KEY name no certificate with its key, in PEM")
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	c.Transport = t
	return true, nil
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
	if source, ok := body.(io.Reader); ok {
		text = struct{ io.Reader }{source} // a file, as it is, which stays open
	} else if body != nil {
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
