package llm

// step says what is to be done with an event of a stream.
type step int

const (
	pass step = iota // on to the client, at once
	hold             // from here on a client could act on a call that is not recorded yet
	last             // the answer is whole
)

// assembler puts an answer together. It reads what the provider sends beside the
// bytes that pass, and changes none of them.
type assembler interface {
	event(name string, data []byte) step
	whole(body []byte) // an answer that is no stream
	done() *answer     // what there is by now
	broken() bool      // it was not understood
}

// answer is what a model said, as far as it matters here.
type answer struct {
	id       string // the provider's
	calls    []called
	objects  []string // provider-side objects it made
	complete bool     // it was seen to its end, and the model ended it
	several  bool     // it holds several answers, of which none counts
	spoiled  bool     // it was not understood; none of it counts
	size     int      // bytes of arguments so far
}

// called is one tool call as it was emitted.
type called struct {
	label, name string
	arguments   []byte
	position    int
}

// part is a call that is being put together.
type part struct {
	label, name string
	text        []byte
	value       reach
	foreign     bool // no function with JSON arguments, or not called by the model itself
}

// spoil gives up understanding. The bytes pass on.
func (a *answer) spoil() step {
	a.spoiled = true
	return pass
}

func (a *answer) made(ids ...string) {
	for _, id := range ids {
		if id != "" {
			a.objects = append(a.objects, id)
		}
	}
}

// grow adds text to a call's arguments, and holds when they may be whole.
func (a *answer) grow(p *part, text string, l Limits) step {
	if a.size += len(text); a.size > l.Event {
		return a.spoil()
	}
	p.text = append(p.text, text...)
	if p.value.add(text) {
		return hold
	}
	return pass
}

// add takes a call that is whole.
func (a *answer) add(p *part, position int) {
	if p.foreign || p.name == "" {
		return
	}
	a.calls = append(a.calls, called{p.label, p.name, p.text, position})
}

// fresh begins the list of calls anew.
func (a *answer) fresh() *answer {
	a.calls = nil
	return a
}

// reach follows a text of JSON to see when it is a whole value: an object or array
// when it is closed. Of a value without brackets nobody can say before its end; no
// tool takes one as its arguments.
type reach struct {
	depth          int
	text, escaped  bool
	begun, reached bool
}

// add reports whether the value is whole by now.
func (r *reach) add(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case r.escaped:
			r.escaped = false
		case r.text:
			r.escaped, r.text = c == '\\', c != '"'
		case c == '"':
			r.text = true
		case c == '{' || c == '[':
			r.depth++
			r.begun = true
		case c == '}' || c == ']':
			r.depth--
			r.reached = r.reached || r.begun && r.depth <= 0
		}
	}
	return r.reached
}

// broken reports whether the answer was not understood.
func (a *answer) broken() bool { return a.spoiled }
