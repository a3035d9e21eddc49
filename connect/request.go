package connect

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"

	"github.com/placet-dev/placet/record"
)

// session is what an older revision's handshake agreed on.
type session struct {
	id      string
	version string
	opening []byte // the initialize request, to open another when the server lost this one
}

func (b *Bridge) current() session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// request sends a client's request and hands back what it gets for it. Whoever
// canceled it is told nothing more.
func (b *Bridge) request(ctx context.Context, m *message, r *running) {
	used := b.current()
	resp, err := b.post(ctx, m, used, r)
	if err == nil && resp.StatusCode == http.StatusNotFound && used.id != "" && !m.modern() && m.method != "initialize" {
		resp.Body.Close()
		if used, err = b.reopen(ctx, used); err == nil {
			resp, err = b.post(ctx, m, used, r)
		}
	}
	var answer []byte
	if err == nil {
		answer, err = b.answer(ctx, m, used, resp)
	}
	switch {
	case ctx.Err() != nil || r.canceled.Load():
		return
	case err != nil:
		answer = answerTo(m.id, codeOf(err), b.words(err))
	default:
		b.learn(m, answer)
	}
	b.end(m, r) // whoever has the answer may use the ID again
	b.write(answer)
}

// outdated is what a server of an older revision says to a newer one's request,
// on which clients fall back.
type outdated struct{ error }

func codeOf(err error) int {
	if errors.As(err, &outdated{}) {
		return noMethod
	}
	return failed
}

// words are what a client is told. Errors of net/http name the URL, which the
// user gave, and what went wrong; nothing in them is secret.
func (b *Bridge) words(err error) string {
	var known *record.Error
	if errors.As(err, &known) || errors.As(err, &outdated{}) {
		return err.Error()
	}
	return fmt.Sprintf("%s gave no answer; whether the request had an effect is not known: %v", b.url, err)
}

// tell sends what gets no answer: a notification, or the client's response.
func (b *Bridge) tell(ctx context.Context, m *message) {
	resp, err := b.post(ctx, m, b.current(), nil)
	switch {
	case err != nil:
		b.log.Warn("a message did not arrive", "method", m.method, "error", err)
		return
	case resp.StatusCode > 299:
		b.log.Warn("a message was refused", "method", m.method, "status", resp.StatusCode)
	}
	resp.Body.Close()
	if m.method == "notifications/initialized" && resp.StatusCode < 300 && !m.modern() {
		b.listen(b.account.life)
	}
}

// tries bounds how often one message is sent: at first, with a refreshed token,
// after a sign-in, and once more with scopes that were missing.
const tries = 4

// post sends a message, with a token that the server takes. An answer of 401 or
// 403 was given before anything ran.
func (b *Bridge) post(ctx context.Context, m *message, s session, r *running) (*http.Response, error) {
	for try := 1; ; try++ {
		token, err := b.account.token(ctx)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(m.text))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		b.mark(req, s, token)
		if m.modern() {
			b.headers(req.Header, m)
		} else if m.method == "initialize" {
			req.Header.Del("Mcp-Session-Id")
			req.Header.Del("Mcp-Protocol-Version")
		}
		if r != nil {
			r.sent.Store(true)
		}
		resp, err := b.http.Do(req)
		if err != nil {
			if unsent(err) {
				err = record.Because(record.Unavailable, err, "%s cannot be reached; is it running, and is its name right?", b.url)
			}
			return nil, err
		}
		c, ok := challengeOf(resp)
		if !ok {
			b.account.worked(token)
			return resp, nil
		}
		resp.Body.Close()
		if try == tries {
			return nil, record.Errorf(record.Unauthenticated, "%s keeps refusing its tokens (HTTP status %d)", b.url, resp.StatusCode)
		}
		if err := b.account.renew(ctx, token, c); err != nil {
			return nil, err
		}
	}
}

// mark adds who sends: the session and the token, for this URL alone.
func (b *Bridge) mark(req *http.Request, s session, token string) {
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
	}
	if s.version != "" {
		req.Header.Set("Mcp-Protocol-Version", s.version)
	}
}

// answer reads the answer to a request. What comes before it goes to the client.
func (b *Bridge) answer(ctx context.Context, m *message, s session, resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && m.method == "initialize" {
		s.id = resp.Header.Get("Mcp-Session-Id")
	}
	switch {
	case resp.StatusCode == http.StatusOK && kind == "text/event-stream":
		text, err := b.stream(ctx, m, s, resp)
		if err != nil {
			return nil, err
		}
		return b.opened(m, s, text), nil
	case resp.StatusCode == http.StatusOK && kind == "application/json":
		text, err := bounded(resp.Body)
		if err != nil {
			return nil, err
		}
		answer, err := readMessage(text)
		if err != nil || !answer.isResponse() || !bytes.Equal(answer.id, m.id) {
			return nil, fmt.Errorf("it sent something that does not answer this request")
		}
		return b.opened(m, s, text), nil
	}
	return b.refusal(m, resp)
}

// opened remembers what a handshake agreed on.
func (b *Bridge) opened(m *message, s session, text []byte) []byte {
	if m.method != "initialize" {
		return text
	}
	answer, err := readMessage(text)
	if err != nil || answer.result == nil {
		return text
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = session{id: s.id, version: str(member(answer.result, "protocolVersion")), opening: m.text}
	return text
}

// refusal is the answer to a request that the server did not take: its own JSON-RPC
// error if it gave one, under the ID that the client waits for.
func (b *Bridge) refusal(m *message, resp *http.Response) ([]byte, error) {
	if text, err := bounded(resp.Body); err == nil {
		if e, err := readMessage(text); err == nil && e.fault != nil {
			return faultTo(m.id, e.fault), nil
		}
	}
	status := resp.StatusCode
	switch {
	case m.modern() && (status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed):
		return nil, outdated{fmt.Errorf("%s does not take MCP revision %s (HTTP status %d)", b.url, m.version, status)}
	case status >= 300 && status < 400:
		return nil, record.Errorf(record.Unavailable, "%s answers with a redirect, which is not followed; give the address that it leads to", b.url)
	case status < 300:
		return nil, fmt.Errorf("it answered HTTP status %d without an answer", status)
	}
	return nil, record.Errorf(record.Unavailable, "%s answered HTTP status %d", b.url, status)
}

// reopen makes a new session when the server no longer knows the old one. The
// client's own handshake is repeated, and its answer is not the client's.
func (b *Bridge) reopen(ctx context.Context, old session) (session, error) {
	b.reopening.Lock()
	defer b.reopening.Unlock()
	if now := b.current(); now.id != old.id {
		return now, nil
	}
	m, err := readMessage(old.opening)
	if err != nil {
		return session{}, err
	}
	resp, err := b.post(ctx, &m, session{}, nil)
	if err != nil {
		return session{}, err
	}
	text, err := b.answer(ctx, &m, session{}, resp)
	if err != nil {
		return session{}, err
	}
	if a, err := readMessage(text); err != nil || a.result == nil {
		return session{}, record.Errorf(record.Unavailable, "%s has ended the session and does not open another; start this server again in your client", b.url)
	}
	done, err := readMessage([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		return session{}, err
	}
	b.tell(ctx, &done)
	return b.current(), nil
}

// leave ends the session.
func (b *Bridge) leave(ctx context.Context) {
	s := b.current()
	if s.id == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, farewell)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.url, nil)
	if err != nil {
		return
	}
	b.mark(req, s, b.account.held())
	if resp, err := b.http.Do(req); err == nil {
		resp.Body.Close()
	}
}

// unsent reports whether no connection was made, so that nothing can have run.
func unsent(err error) bool {
	var dial *net.OpError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &certificate)
}

// bounded reads a body of at most one message.
func bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && len(text) > most {
		err = errTooLarge
	}
	return text, err
}
