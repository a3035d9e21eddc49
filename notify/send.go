package notify

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// answerBytes is how much of an answer is read, to keep the connection. None of it is used.
	answerBytes = 64 << 10
	// longestPause bounds what is waited between two tries, whatever a receiver asks for.
	longestPause = 10 * time.Minute
)

// failure is why a receiver did not take a notice. It names no address: that of a
// chat room is a secret.
type failure struct {
	why   string
	after time.Duration // what the receiver asks for
	only  bool          // it is this notice that is not taken; others may be
}

func (f *failure) Error() string { return f.why }

// post sends a notice once. The address and the secret are read now.
func (d *Desk) post(ctx context.Context, r *Receiver, id string, body []byte) *failure {
	address, err := r.Address()
	if err != nil {
		return &failure{why: "its address cannot be read"}
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return &failure{why: "its address is not a URL"}
	}
	req.GetBody = nil // a try is one request
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "placet")
	if r.Secret != nil {
		if err := d.sign(req, r, id, body); err != nil {
			return &failure{why: "its secret cannot be used: " + err.Error()}
		}
	}
	resp, err := d.http.Do(req)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return &failure{why: err.Error()}
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		_, _ = io.CopyN(io.Discard, resp.Body, answerBytes)
		return nil
	}
	f := &failure{why: fmt.Sprintf("it answered with status %d", resp.StatusCode)}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		f.why += ", a redirect, which is not followed"
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		f.only = true
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		f.after = min(time.Duration(min(s, 3600))*time.Second, longestPause)
	}
	return f
}

// sign sets the three headers of the Standard Webhooks specification.
func (d *Desk) sign(req *http.Request, r *Receiver, id string, body []byte) error {
	secret, err := r.Secret()
	if err != nil {
		return errors.New("it cannot be read")
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return errors.New("it is not base64")
	}
	now := d.o.Clock()
	signature, err := signer.Sign(id, now, body)
	if err != nil {
		return err
	}
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}

// CheckSecret says what is wrong with a webhook's secret. The specification wants
// 24 to 64 random bytes in base64, after whsec_.
func CheckSecret(secret string) error {
	text, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return errors.New("is not a webhook's secret, which is whsec_ and 24 to 64 random bytes in base64")
	}
	return nil
}
