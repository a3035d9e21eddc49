package identity

import (
	"errors"

	"github.com/placet-dev/placet/record"
)

// lack is the error of somebody known who does not hold a permission.
type lack struct {
	refusal
	workload   *Workload // nil: the caller presented no workload's credential
	permission Permission
}

func (l *lack) Unwrap() error { return &l.refusal }

func lacks(w *Workload, p Permission, format string, args ...any) error {
	return &lack{refusal{checkWorkload, record.Errorf(record.Forbidden, format, args...)}, w, p}
}

// Lacking reports whether an error is that a permission is not held, which one, and
// by which workload; nil where no workload's credential was presented. The answer
// is 403 insufficient_scope with the permission's name (RFC 6750 section 3.1).
func Lacking(err error) (*Workload, Permission, bool) {
	var l *lack
	if !errors.As(err, &l) {
		return nil, "", false
	}
	return l.workload, l.permission, true
}

// MustVouch is the refusal of a caller whose statements about turns do not count.
func (c Caller) MustVouch() error {
	switch {
	case c.Vouches():
		return nil
	case c.workload != nil:
		return lacks(c.workload, Vouch, "workload %s does not hold the permission vouch", c.workload.name)
	}
	return lacks(nil, Vouch, "this needs a workload's own credential with the permission vouch, beside the user's token")
}
