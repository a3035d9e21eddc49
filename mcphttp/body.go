package mcphttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrTooLarge says that a server sent more than it may.
var ErrTooLarge = errors.New("the answer is larger than the limit")

// ReadBody reads a body of at most max bytes, in one piece where its length is known.
func ReadBody(resp *http.Response, max int) ([]byte, error) {
	if n := resp.ContentLength; n > int64(max) {
		return nil, ErrTooLarge
	} else if n >= 0 {
		text := make([]byte, n)
		_, err := io.ReadFull(resp.Body, text)
		if err != nil {
			return nil, fmt.Errorf("the answer was cut off: %w", err)
		}
		return text, nil
	}
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(resp.Body, int64(max)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer was cut off: %w", err)
	case n > int64(max):
		return nil, ErrTooLarge
	}
	return b.Bytes(), nil
}
