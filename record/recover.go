package record

import (
	"strconv"
	"time"
)

// Recovery opens a new epoch of a store that may be older than what happened (rule J2),
// in the transaction that carries it: the store finds every call that is open and moves
// each by [Recovery.Of], and every run that holds a delegation by [Recovery.OfRun]. Nobody
// who opened the store in an earlier epoch changes anything afterwards.
type Recovery struct {
	From int64 // the epoch it ends, else RefusedConflict
	To   int64
	Why  string
	Who  Who
	At   time.Time
}

// Recover is an operator's act. lost tells of what is known to be missing; empty:
// nothing is.
func Recover(r Recovery, lost string) (Change, error) {
	if r.To != r.From+1 || r.Why == "" {
		return Change{}, Errorf(Internal, "an epoch follows the one before it, for a reason")
	}
	return Change{Facts{At: r.At, Recover: &r, Events: []Event{{At: r.At, Kind: EventRecovered, Who: r.Who,
		Body: Body{Note: r.Why, Evidence: lost, Detail: "epoch " + strconv.FormatInt(r.To, 10)}.encode()}}}}, nil
}

// Of ends what the restored state only believes: a call that may have been sent is
// unknown, and one that waits is canceled with its question, whatever was answered.
func (r Recovery) Of(c Call, open *Approval) (Change, error) {
	s := Step{At: r.At, Who: r.Who}
	if c.State == Executing {
		return Settle(c, Unknown, Outcome{Code: CodeOutcomeUnknown, Sent: true, Detail: "the store was recovered while it ran"}, s, ByRecovery)
	}
	return End(c, Canceled, ByRecovery, CodeCanceled, s, open)
}

// OfRun withdraws a delegation: it may have been withdrawn already.
func (r Recovery) OfRun(run Run) Change {
	return Withdraw(run, "the store was recovered", r.Who, r.At)
}
