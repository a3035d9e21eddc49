package alert

import (
	"encoding/json"
	"slices"

	"github.com/placet-dev/placet/record"
)

// body is what the rules read of an event. Labels and origins are members of the
// events of those stores whose boundary knows them; where there are none, the
// rules that need them find nothing.
type body struct {
	record.Body
	Labels  []string `json:"labels"`
	Origins []struct {
		From string        `json:"origin"`
		Call record.CallID `json:"call"` // whose result a value stands in
	} `json:"origins"`
}

const (
	eventLabelled      record.EventKind = "labelled" // a lineage carries labels that it did not carry before
	codePrivateAddress record.Code      = "private_address"
)

const (
	labelSensitive = "sensitive"
	fromLabelled   = "labelled_result"
)

func bodyOf(e record.Event) (b body, ok bool) {
	return b, json.Unmarshal(e.Body, &b) == nil
}

// refusesValue reports whether a guard refused a path, an address or another value.
func (b body) refusesValue() bool {
	return b.Code == record.CodeGuardRefused || b.Code == record.CodeNoSuchTarget || b.Code == codePrivateAddress
}

// sources are the calls whose results held values of the refused call: the
// document that caused it.
func (b body) sources() (out []record.CallID) {
	for _, o := range b.Origins {
		if o.From == fromLabelled && o.Call != "" && !slices.Contains(out, o.Call) {
			out = append(out, o.Call)
		}
	}
	return out
}
