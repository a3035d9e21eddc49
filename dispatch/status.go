package dispatch

import "net/http"

// RefusedStatus lists the HTTP statuses of a refusal before execution (rule E1).
func RefusedStatus(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// Attach puts the credential among a request's headers: in one, with one value.
func (c Credential) Attach(h http.Header) {
	if c.Header != "" {
		h[http.CanonicalHeaderKey(c.Header)] = []string{c.Value}
	}
}

// Unwelcome reports whether a server's status is about the credential, and tells
// its source if the server did not take it.
func (c Credential) Unwelcome(status int) bool {
	if c.None() || status != http.StatusUnauthorized && status != http.StatusForbidden {
		return false
	}
	if status == http.StatusUnauthorized && c.Refused != nil {
		c.Refused()
	}
	return true
}
