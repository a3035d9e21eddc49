package record

// Reach is whose questions of one rule a person may answer.
type Reach struct {
	Own    bool // of calls made for themselves
	Others bool // of calls made for anybody else
}

// Reach says it for a person in groups. A store that looks for somebody's questions
// asks once for each rule; whether a question is theirs, Eligible says.
func (r ApprovalRule) Reach(person Principal, groups []Group) Reach {
	return Reach{Own: r.Eligible(person, groups, person), Others: r.Eligible(person, groups, Principal{})}
}

// Of reports whether it reaches a question of a call made for a principal.
func (r Reach) Of(own bool) bool { return own && r.Own || !own && r.Others }
