package guard

import "github.com/placet-dev/placet/record"

// Refusal is a guard's no. It holds no value of the argument.
type Refusal struct {
	Argument string      // the argument, or the place in it: items[2].url
	Type     Type        // the guard that refused
	Code     record.Code // guard_refused, or private_address
	Public   string      // what the model may read, after the argument's name
	Private  string      // what operators read beside it
	Instead  string      // what the entry says to do instead
}

// Error is the text for the model.
func (r *Refusal) Error() string {
	if r.Argument == "" {
		return r.Public
	}
	return r.Argument + " " + r.Public
}

// refuse is a refusal whose place the caller fills in.
func refuse(public string) *Refusal {
	return &Refusal{Code: record.CodeGuardRefused, Public: public}
}

// private is the one answer for every address that is not public, in whatever
// spelling: what is there is nobody's business.
func private(why string) *Refusal {
	return &Refusal{Code: record.CodePrivateAddress, Public: "leads to an address that cannot be reached from here", Private: why}
}

// undecided is a refusal because the world could not be looked at.
func undecided(public, private string) *Refusal {
	return &Refusal{Code: record.CodeCannotDecide, Public: public, Private: private}
}
