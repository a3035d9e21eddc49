package record

import "time"

// Fresh ends the lineage of all runs that an owner opened without vouch (rule B1), in
// the transaction that carries it: its live runs end, each by [Fresh.Of], and the
// owner's epoch rises, so that the next run is in another lineage.
type Fresh struct {
	Owner Owner
	From  int64 // the epoch it ends, else RefusedConflict
	Who   Who
	At    time.Time
}

// StartFresh is the person's own act. What it leaves behind stays in the record, and
// an outcome that is not known goes on counting everywhere (rule A8).
func StartFresh(o Owner, epoch int64, at time.Time) Change {
	who := Who{Principal: &o.Principal}
	return Change{Facts{At: at, Fresh: &Fresh{Owner: o, From: epoch, Who: who, At: at},
		Events: []Event{{At: at, Tenant: o.Tenant, Kind: EventFresh, Who: who,
			Body: Body{To: &Who{Principal: &o.Principal, Agent: o.Agent}, Detail: string(UnvouchedLineage(o, epoch))}.encode()}}}}
}

// Of ends one of the owner's live runs.
func (f Fresh) Of(r Run) (Change, error) {
	return EndRun(r, "the person started fresh", f.Who, f.At)
}

// Standing is what of an owner counts across their runs without vouch.
type Standing struct {
	Agent      AgentID   `json:"agent"`
	Epoch      int64     `json:"epoch"`
	Since      time.Time `json:"since"`      // when the first run of this lineage was opened; zero: none was since the person started fresh
	Runs       int       `json:"runs"`       // that are live
	Rejections int       `json:"rejections"` // that count, whatever their age
}
