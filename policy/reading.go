package policy

// Reading is a layer that can say what of the input its rules mention, two names deep
// ("principal.scopes", "run"), or "input" where that cannot be told. One that cannot say
// reads everything.
type Reading interface{ Reads() []string }
