package record

import (
	"errors"
	"fmt"
	"net/http"
)

// Kind classifies errors. A denial is a [Decision], never an error.
type Kind string

const (
	Invalid         Kind = "invalid"         // the request is malformed; sending it again changes nothing
	Unauthenticated Kind = "unauthenticated" // no verified identity
	Forbidden       Kind = "forbidden"       // a verified identity without the right
	NeedsPasskey    Kind = "needs_passkey"   // a verified person whose passkey did not sign this
	NotFound        Kind = "not_found"       // does not exist, or is not yours: one answer (rule I3)
	Conflict        Kind = "conflict"        // somebody else changed it; read again
	Limited         Kind = "limited"         // too much at once; later it may do
	TooLarge        Kind = "too_large"       //
	Unsupported     Kind = "unsupported"     // known, and not supported yet
	Unavailable     Kind = "unavailable"     // cannot be decided or made durable now
	Internal        Kind = "internal"        // a defect of ours
)

// Surface is what a kind means outside.
type Surface struct {
	HTTP int // status
	RPC  int // JSON-RPC error code
	Exit int // exit code of the command line
}

// surfaces is the only place that decides what a kind means outside.
var surfaces = map[Kind]Surface{
	Invalid:         {http.StatusBadRequest, -32602, 2},
	Unauthenticated: {http.StatusUnauthorized, -32001, 3},
	Forbidden:       {http.StatusForbidden, -32003, 4},
	NeedsPasskey:    {http.StatusForbidden, -32008, 4},
	NotFound:        {http.StatusNotFound, -32004, 5},
	Conflict:        {http.StatusConflict, -32005, 6},
	Limited:         {http.StatusTooManyRequests, -32006, 7},
	TooLarge:        {http.StatusRequestEntityTooLarge, -32600, 2},
	Unsupported:     {http.StatusNotImplemented, -32601, 8},
	Unavailable:     {http.StatusServiceUnavailable, -32007, 9},
	Internal:        {http.StatusInternalServerError, -32603, 10},
}

// Kinds lists every kind, in the order of the table in docs/errors.md.
func Kinds() []Kind {
	return []Kind{Invalid, Unauthenticated, Forbidden, NeedsPasskey, NotFound, Conflict, Limited, TooLarge, Unsupported, Unavailable, Internal}
}

// SurfaceOf returns what a kind means outside; an unknown kind is internal.
func SurfaceOf(k Kind) Surface {
	if s, ok := surfaces[k]; ok {
		return s
	}
	return surfaces[Internal]
}

// Error carries a kind, a message that anyone may read, and a cause that only
// operators may. The message holds no secret, no argument value and no stack.
type Error struct {
	Kind    Kind
	Message string // starts lower-case, says what is wrong and what to do
	full    string // what operators read in logs
	cause   error
}

func (e *Error) Error() string { return e.full }

func (e *Error) Unwrap() error { return e.cause }

// Errorf makes an error of a kind. A %w among the verbs becomes the cause and
// part of the message: wrap only what callers may read.
func Errorf(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Message: err.Error(), full: err.Error(), cause: errors.Unwrap(err)}
}

// Because makes an error whose cause operators see in logs and callers do not.
func Because(k Kind, cause error, format string, args ...any) *Error {
	m := fmt.Sprintf(format, args...)
	return &Error{Kind: k, Message: m, full: m + ": " + cause.Error(), cause: cause}
}

// KindOf returns the kind of the first *Error in err's chain, else Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// PublicMessage returns what a caller may read of err: the message of the first
// *Error in its chain, and for anything else nothing but that it went wrong.
func PublicMessage(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Kind != Internal {
		return e.Message
	}
	return "something went wrong here; the operator's log has the details"
}
