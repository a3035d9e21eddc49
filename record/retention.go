package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Recording is what stays of a call's arguments once it has ended. Until then they are
// there in full: they are what is decided, shown and sent.
type Recording string

const (
	RecordFull     Recording = "full"
	RecordRedacted Recording = "redacted" // their names, and the values of targets
	RecordDigest   Recording = "digest"   // none of them
)

func (Recording) Choices() []string {
	return []string{string(RecordFull), string(RecordRedacted), string(RecordDigest)}
}

// Retention is what stays of a call once it has ended, and for how long. It is set when
// the call is proposed. The zero value keeps everything for good.
type Retention struct {
	Arguments Recording     `json:"arguments,omitempty"` // empty: full
	For       time.Duration `json:"for,omitempty"`       // after that nothing of its content; zero: for good
}

// Stricter keeps only what both keep.
func (r Retention) Stricter(s Retention) Retention {
	rank := func(r Recording) int { return slices.Index([]Recording{RecordRedacted, RecordDigest}, r) }
	if rank(s.Arguments) > rank(r.Arguments) {
		r.Arguments = s.Arguments
	}
	if r.For == 0 || s.For > 0 && s.For < r.For {
		r.For = s.For
	}
	return r
}

// Redaction says what is no longer in the record of an ended call.
type Redaction struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"` // "clock", or the operator
	Why  string    `json:"why"`
	What []string  `json:"what"`
	All  bool      `json:"all"` // nothing of its content is left; else what record_arguments leaves
}

// redactAfter is how long an ended call stays whole, so that whoever watches the log
// finds what its last events are of.
const redactAfter = time.Minute

// SaltBytes is the length of a call's salt.
const SaltBytes = 16

// Commit is how events name a digest of a call's content: salted, so that an export does
// not let anybody try what the content may have been. Without its salt, as in a call that
// was redacted or was proposed by a version that gave it none, nothing is said.
func (c Call) Commit(d canon.Digest) canon.Digest {
	if len(c.Salt) == 0 || d.IsZero() {
		return canon.Digest{}
	}
	return canon.Of("placet/commitment/1", c.Salt, d[:])
}

// ends is when the clock next takes something from an ended call; zero: never. What it
// takes has been taken when the call is moved again, which only another taking does.
func (c Call) ends() time.Time {
	var out time.Time
	if c.Redacted == nil && (c.Retention.Arguments == RecordRedacted || c.Retention.Arguments == RecordDigest) {
		out = c.Changed.Add(redactAfter)
	}
	if c.Retention.For > 0 && (c.Redacted == nil || !c.Redacted.All) {
		if over := c.Changed.Add(max(c.Retention.For, redactAfter)); out.IsZero() || over.Before(out) {
			out = over
		}
	}
	return out
}

// Outlived takes from an ended call what its retention does not keep any longer. q is its
// question, if it had one.
func Outlived(c Call, q *Approval, at time.Time) (Change, error) {
	if due := c.ends(); due.IsZero() || at.Before(due) {
		return Change{}, Errorf(Conflict, "nothing of the call is to be redacted now")
	}
	all, why := false, "record_arguments: "+string(c.Retention.Arguments)
	if over := c.Changed.Add(max(c.Retention.For, redactAfter)); c.Retention.For > 0 && !at.Before(over) {
		all, why = true, "retention: "+c.Retention.For.String()
	}
	return redacted(c, q, all, why, Who{System: "clock"}, "clock", at)
}

// RedactCall takes the content of an ended call out of the record, for good: arguments,
// what approvers were shown of them, and the result. Its digests stay in its row, since
// equal calls are found by them; its salt goes, so that events tell nothing of it.
func RedactCall(c Call, q *Approval, why string, who Who, by string, at time.Time) (Change, error) {
	if !c.State.Terminal() {
		return Change{}, Errorf(Conflict, "the call is %s; only one that has ended is redacted", c.State)
	}
	if c.Redacted != nil && c.Redacted.All {
		return Change{}, Errorf(Conflict, "the call was redacted on %s", c.Redacted.At.UTC().Format(time.RFC3339))
	}
	return redacted(c, q, true, why, who, by, at)
}

// notThere refuses to go on with a call that is not whole. Only one that has ended is
// redacted, so that a row like it was made by somebody else than this program.
func notThere(c Call) error {
	return Errorf(Conflict, "the arguments of the call %s are not kept any more: it cannot run or be answered; propose it anew", c.ID)
}

func redacted(c Call, q *Approval, all bool, why string, who Who, by string, at time.Time) (Change, error) {
	after := c
	after.Version++
	r := Redaction{At: at, By: by, Why: why, All: all}
	took := func(what string, there bool) {
		if there {
			r.What = append(r.What, what)
		}
	}
	if all || c.Retention.Arguments != RecordRedacted {
		took("arguments", len(c.Arguments) > 0)
		took("targets", len(c.Targets) > 0)
		after.Arguments, after.Targets = nil, nil
	} else {
		var names []string
		after.Arguments, names = withoutValues(c.Arguments, c.Targets)
		for _, name := range names {
			took("arguments."+name, true)
		}
	}
	took("input", len(c.Input) > 0)
	took("effect", c.EffectText != "")
	took("purpose", c.Purpose != "")
	took("preview", q != nil && q.Preview != nil)
	took("salt", len(c.Salt) > 0)
	after.Input, after.EffectText, after.Purpose, after.Salt = nil, "", "", nil
	if o := c.Outcome; o != nil && all {
		took("result", len(o.Result) > 0)
		kept := *o
		kept.Result = nil
		after.Outcome = &kept
	}
	event := after.event(EventCallRedacted, who, at, Body{Note: why, Redacted: r.What})
	if c.Redacted != nil {
		for _, what := range c.Redacted.What {
			if !slices.Contains(r.What, what) {
				r.What = append(r.What, what)
			}
		}
	}
	after.Redacted = &r
	after.Due = after.ends()
	return Change{Facts{At: at, Call: &CallMove{From: c.State, FromVersion: c.Version, After: after, Redacts: true}, Events: []Event{event}}}, nil
}

// withoutValues leaves the names of arguments, and the values of those that are targets.
// A target inside of an argument stays with the call's targets alone.
func withoutValues(arguments []byte, targets []Target) (json.RawMessage, []string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(arguments, &members) != nil {
		return nil, []string{"*"} // canonical arguments are an object: it always reads
	}
	names := make([]string, 0, len(members))
	for name, value := range members {
		stays := slices.ContainsFunc(targets, func(t Target) bool { return t.Argument == name && bytes.Equal(t.Value, value) })
		if !stays {
			members[name] = json.RawMessage(`"(redacted)"`)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(members) != nil {
		return nil, names
	}
	return json.RawMessage(strings.TrimSuffix(out.String(), "\n")), names
}
