package record

import (
	"encoding/json"
	"slices"
	"time"
)

// ValueOrigin says where a value of a call comes from (rules B5 and F4).
type ValueOrigin string

const (
	FromUser     ValueOrigin = "user"            // typed by the user, and vouched for
	FromOperator ValueOrigin = "operator"        // stated by the operator
	FromSelected ValueOrigin = "selected_record" // a declared field of a record that the user selected
	FromLabelled ValueOrigin = "labelled_result" // it stood in text from outside
	FromUnknown  ValueOrigin = "unknown"
)

// Origin is where one value of a call comes from. It names the value by a salted
// digest.
type Origin struct {
	Argument string      `json:"argument"`
	Kind     string      `json:"kind,omitempty"`
	From     ValueOrigin `json:"origin"`
	Trusted  bool        `json:"trusted"`
	Target   bool        `json:"target,omitempty"` // it is what the call acts on; else it was found inside an argument
	Hidden   bool        `json:"hidden,omitempty"` // it was found only after decoding
	Digest   string      `json:"digest"`
	Call     CallID      `json:"call,omitempty"` // whose result it is from
	Tool     string      `json:"tool,omitempty"`
}

// Mark is a label of a lineage: since when it last came, and by which call.
type Mark struct {
	Label string    `json:"label"`
	At    time.Time `json:"at"`
	Call  CallID    `json:"call,omitempty"`
	Tool  string    `json:"tool,omitempty"`
}

// Lineage is what protects a lineage beside its calls: its labels, and how often
// what its user typed has paid for an effect (rules F1, F2 and B5). The zero value
// is a lineage that has read and been told nothing.
type Lineage struct {
	Tenant  TenantID       `json:"tenant"`
	ID      LineageID      `json:"id"`
	Version int64          `json:"version"` // rises with every new label, every payment, and every hold and its lift
	Seq     int64          `json:"seq"`     // of its newest material
	Salt    []byte         `json:"salt,omitempty"`
	Marks   []Mark         `json:"marks,omitempty"`
	Paid    map[string]int `json:"paid,omitempty"`
	Hold    *Held          `json:"hold,omitempty"` // an alert put it there; nil: not held
}

// Labels are the labels that count at a time. lasts is how long a mark counts; zero: for good.
func (l Lineage) Labels(now time.Time, lasts time.Duration) []string {
	var out []string
	for _, m := range l.Marks {
		// A mark is written anew at most once a minute, so it counts a minute longer.
		if lasts == 0 || now.Sub(m.At) < lasts+time.Minute {
			out = append(out, m.Label)
		}
	}
	return out
}

// Fresh returns the labels that a reservation has to write: those that the lineage
// does not carry, and those that it carries since more than a minute.
func (l Lineage) Fresh(labels []string, now time.Time) []string {
	var out []string
	for _, label := range labels {
		i := slices.IndexFunc(l.Marks, func(m Mark) bool { return m.Label == label })
		if i < 0 || now.Sub(l.Marks[i].At) > time.Minute {
			out = append(out, label)
		}
	}
	return out
}

// New returns the labels that the lineage does not carry at all.
func (l Lineage) New(labels []string) []string {
	return slices.DeleteFunc(slices.Clone(labels), func(label string) bool {
		return slices.ContainsFunc(l.Marks, func(m Mark) bool { return m.Label == label })
	})
}

// Material is one thing that a lineage has read or been told, as it is kept.
type Material struct {
	Seq  int64           `json:"seq"` // given by the store
	Kind string          `json:"kind"`
	At   time.Time       `json:"at"`
	Call CallID          `json:"call,omitempty"`
	Body json.RawMessage `json:"body"`

	Counts bool `json:"-"` // decisions that did not see it do not stand: what a user typed
}

// LineageMove adds to a lineage. Nothing in it takes anything away but an operator's lift.
type LineageMove struct {
	Tenant   TenantID
	ID       LineageID
	Salt     []byte // its salt, if it has none yet
	Marks    []Mark
	Pays     []string
	Material []Material
	Hold     *Held // put on, unless the lineage is held already
	Lift     bool  // taken off
}

// Apply adds a move to a lineage. It is what stores do with one.
func (l Lineage) Apply(m LineageMove) Lineage {
	l.Tenant, l.ID = m.Tenant, m.ID
	if len(l.Salt) == 0 && len(m.Salt) > 0 {
		l.Salt = m.Salt
		l.Version++ // whoever digested with another one starts over
	}
	if len(m.Marks) > 0 {
		l.Marks = slices.Clone(l.Marks)
	}
	for _, mark := range m.Marks {
		if i := slices.IndexFunc(l.Marks, func(have Mark) bool { return have.Label == mark.Label }); i >= 0 {
			if l.Marks[i].At.Before(mark.At) {
				l.Marks[i].At = mark.At
			}
			continue
		}
		l.Marks = append(l.Marks, mark)
		l.Version++
	}
	if len(m.Pays) > 0 {
		paid := make(map[string]int, len(l.Paid)+len(m.Pays))
		for k, n := range l.Paid {
			paid[k] = n
		}
		for _, k := range m.Pays {
			paid[k]++
		}
		l.Paid = paid
		l.Version++
	}
	if m.Hold != nil && l.Hold == nil {
		l.Hold = m.Hold
		l.Version++
	}
	if m.Lift && l.Hold != nil {
		l.Hold = nil
		l.Version++
	}
	for _, material := range m.Material {
		if l.Seq++; material.Counts {
			l.Version++
		}
	}
	return l
}

// Empty reports whether the move adds nothing.
func (m *LineageMove) Empty() bool {
	return m == nil || len(m.Marks)+len(m.Pays)+len(m.Material) == 0 && m.Hold == nil && !m.Lift
}

// labelled is the event of new labels; fresh are those that the lineage did not carry.
func (c Call) labelled(who Who, at time.Time, fresh []string) Event {
	return c.event(EventLabelled, who, at, Body{Labels: fresh})
}

// StateInput records what a user typed, as their orchestrator states it (rule B5).
// The premise holds that nothing else was stated meanwhile.
func StateInput(r Run, p *Premise, m LineageMove, who Who, at time.Time) Change {
	return Change{Facts{At: at, Premise: p, Lineage: &m,
		Events: []Event{r.event(EventInputStated, who, at, Body{Turn: r.Turn, Redacted: []string{"user_input"}})}}}
}

// Labelling adds labels outside of a call's own moves, before something that
// brings them is passed on.
func Labelling(c Call, m LineageMove, at time.Time) Change {
	var labels []string
	for _, mark := range m.Marks {
		labels = append(labels, mark.Label)
	}
	return Change{Facts{At: at, Lineage: &m, Events: []Event{c.labelled(c.By(), at, labels)}}}
}
