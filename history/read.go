package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/placet-dev/placet/canon"
)

// Limits bound what is read. A field that is not positive means its default.
type Limits struct {
	Bytes    int64 // of the whole transcript; default 256 MiB
	Message  int   // bytes of one message; default 32 MiB
	Depth    int   // objects and arrays inside one another in a message; default 64
	Calls    int   // calls and results in all; default 1,000,000
	Findings int   // kept in a report; the others are counted; default 1,000
}

func (l Limits) withDefaults() Limits {
	set := func(n *int, d int) {
		if *n <= 0 {
			*n = d
		}
	}
	if l.Bytes <= 0 {
		l.Bytes = 256 << 20
	}
	set(&l.Message, 32<<20)
	set(&l.Depth, 64)
	set(&l.Calls, 1_000_000)
	set(&l.Findings, 1_000)
	return l
}

// spec is what a reader knows of a format.
type spec struct {
	lists  []string // members of the envelope that hold the messages
	system []string // that hold what the operator told the model
	refs   []string // that point at history the provider keeps
	read   func(p *parser, v place)
}

var specs = map[Format]spec{
	Chat:       {lists: []string{"messages"}, read: readChat},
	Mistral:    {lists: []string{"messages"}, read: readChat},
	Responses:  {lists: []string{"input", "output"}, system: []string{"instructions"}, refs: []string{"previous_response_id", "conversation"}, read: readResponses},
	Messages:   {lists: []string{"messages"}, system: []string{"system"}, read: readMessages},
	UI:         {lists: []string{"messages"}, read: readUI},
	Model:      {lists: []string{"messages"}, system: []string{"system", "instructions"}, read: readModel},
	Gemini:     {lists: []string{"contents"}, system: []string{"systemInstruction", "system_instruction"}, refs: []string{"cachedContent", "cached_content"}, read: readGemini},
	LangChain:  {lists: []string{"messages"}, read: readLangChain},
	AGUI:       {lists: []string{"messages"}, read: readAGUI},
	AGUIEvents: {lists: []string{"events"}, read: readAGUIEvents},
	Sampling:   {lists: []string{"messages"}, system: []string{"systemPrompt"}, read: readSampling},
	Bedrock:    {lists: []string{"messages"}, system: []string{"system"}, read: readBedrock},
	A2A:        {lists: []string{"history", "messages"}, read: readA2A},
	ADK:        {lists: []string{"events"}, read: readADK},
}

// Formats lists what is read, in alphabetical order.
func Formats() []Format {
	var out []Format
	for f := range specs {
		out = append(out, f)
	}
	slices.Sort(out)
	return out
}

// Reader reads a transcript message by message.
type Reader struct {
	format Format
	spec   spec
	lim    Limits
	src    *bounded
	frames *unframed // of a stream of events; nil: the format has none
	dec    *jsontext.Decoder
	p      parser
	source []byte // the whole, where it is in memory

	state int    // before, within or after the list
	lists int    // how many lists were seen
	bare  bool   // the transcript is the list, without an envelope
	ptr   string // of the list
	depth int    // objects that are open around the list
	items int
	list  [2]int
}

const (
	before = iota
	within
	after
)

// NewReader reads a transcript of a format from r.
func NewReader(r io.Reader, f Format, lim Limits) (*Reader, error) {
	s, ok := specs[f]
	if !ok {
		return nil, invalid("unknown format %q; the formats are %s", f, names())
	}
	lim = lim.withDefaults()
	out := &Reader{format: f, spec: s, lim: lim, src: &bounded{r: r, left: lim.Bytes}, p: parser{format: f}}
	if f != AGUIEvents {
		out.dec = jsontext.NewDecoder(out.src)
		return out, nil
	}
	out.frames = &unframed{r: out.src}
	out.dec, out.p.stream = jsontext.NewDecoder(out.frames), newStream()
	return out, nil
}

func names() string {
	var out []string
	for _, f := range Formats() {
		out = append(out, string(f))
	}
	return strings.Join(out, ", ")
}

// bounded ends a source that is longer than it may be, in all or since the last
// value began.
type bounded struct {
	r     io.Reader
	left  int64 // of the whole
	value int   // of the value being read; 0: no bound
	over  string
}

var errBound = errors.New("too large")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 || b.value < 0 {
		b.over = "the transcript is larger than allowed"
		if b.value < 0 {
			b.over = "a message is larger than allowed"
		}
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 && err == io.EOF {
			b.over = ""
			return 0, io.EOF
		}
		return 0, errBound
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if b.value > 0 {
		if b.value -= n; b.value == 0 {
			b.value = -1
		}
	}
	return n, err
}

// value reads one value whole, within the bounds.
func (r *Reader) value() (place, error) {
	r.src.value = r.lim.Message + 1
	raw, err := r.dec.ReadValue()
	if err != nil {
		return place{}, r.failed(err)
	}
	v := place{b: raw, at: r.dec.InputOffset() - int64(len(raw))}
	if r.source != nil {
		v.b = r.source[v.at : v.at+int64(len(raw)) : v.at+int64(len(raw))]
	}
	if len(raw) > r.lim.Message {
		return v, &Error{Code: CodeTooLarge, At: v.position(), Why: fmt.Sprintf("a message is larger than %d bytes", r.lim.Message)}
	}
	if raw[0] == '{' || raw[0] == '[' {
		if _, deep := container(raw, 0); deep > r.lim.Depth {
			return v, &Error{Code: CodeTooDeep, At: v.position(), Why: fmt.Sprintf("a message is deeper than %d levels", r.lim.Depth)}
		}
	}
	return v, nil
}

// failed turns the library's refusal into ours: its own text quotes what it read.
func (r *Reader) failed(err error) error {
	e := &Error{Code: CodeMalformed, Why: "not JSON", At: Position{Offset: r.dec.InputOffset()}}
	var s *jsontext.SyntacticError
	if errors.As(err, &s) {
		e.At.Offset, e.At.Pointer = s.ByteOffset, cut(string(s.JSONPointer), 256)
	}
	switch {
	case r.src.over != "":
		e.Code, e.Why = CodeTooLarge, r.src.over
	case r.frames != nil && r.frames.bad != "":
		e.Why = r.frames.bad
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Code, e.Why = CodeDuplicateName, "two members of one object have the same name"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Why = "the JSON ends too early"
	case s == nil:
		return err // of the source, not of the text
	}
	if r.frames != nil {
		e.At.Offset = min(e.At.Offset, r.frames.size) // the list's last bracket is not in the source
	}
	e.At.End = e.At.Offset
	return e
}

// cut shortens what is shown, at a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Next returns the next message, or io.EOF after the last. What stands outside
// the list, such as a system prompt, comes as a message with the index -1. Its
// bytes are valid until the next call. An *[Error] ends the reading.
func (r *Reader) Next() (*Message, error) {
	for {
		switch r.state {
		case before:
			if m, err := r.outside(); m != nil || err != nil {
				return m, err
			}
		case within:
			if r.dec.PeekKind() == ']' {
				if s := r.p.stream; s != nil && len(s.open) > 0 { // the stream ends within them
					m := r.p.message(s.unfinished()[0].at, r.p.next, func(p *parser, _ place) { p.cutOff() })
					r.p.next++
					return r.counted(m)
				}
				if _, err := r.dec.ReadToken(); err != nil {
					return nil, r.failed(err)
				}
				r.list[1] = int(r.dec.InputOffset()) - 1
				if r.state = before; r.bare {
					r.state = after
				}
				continue
			}
			return r.message()
		default:
			if _, err := r.dec.ReadToken(); err == nil {
				return nil, &Error{Code: CodeMalformed, Why: "data after the transcript", At: Position{Offset: r.dec.InputOffset()}}
			} else if err != io.EOF {
				return nil, r.failed(err)
			}
			return nil, io.EOF
		}
	}
}

// message reads one of the list.
func (r *Reader) message() (*Message, error) {
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	v.ptr = r.ptr + "/" + strconv.Itoa(r.p.next)
	m := r.p.message(v, r.p.next, r.spec.read)
	r.p.next++
	if s := r.p.stream; s != nil && s.size > r.lim.Message {
		return nil, &Error{Code: CodeTooLarge, At: m.At, Why: fmt.Sprintf("what is being written is larger than %d bytes", r.lim.Message)}
	}
	return r.counted(m)
}

// counted is a message, unless it holds more calls and results than are read.
func (r *Reader) counted(m *Message) (*Message, error) {
	for _, i := range m.Items {
		if i.Kind == Call || i.Kind == Result {
			r.items++
		}
	}
	if r.items > r.lim.Calls {
		return nil, &Error{Code: CodeTooLarge, At: m.At, Why: fmt.Sprintf("more than %d calls and results", r.lim.Calls)}
	}
	return m, nil
}

// outside reads on around the list: nil and nil when there was nothing to say.
func (r *Reader) outside() (*Message, error) {
	r.src.value = 0
	switch kind := r.dec.PeekKind(); {
	case kind == '[' && r.depth == 0:
		r.bare = true
		return nil, r.enter("")
	case kind == '{' && r.depth == 0:
		if _, err := r.dec.ReadToken(); err != nil {
			return nil, r.failed(err)
		}
		r.depth = 1
		return nil, nil
	case kind == '}':
		if _, err := r.dec.ReadToken(); err != nil {
			return nil, r.failed(err)
		}
		if r.depth--; r.depth > 0 {
			return nil, nil
		}
		r.state = after
		if r.lists == 0 {
			return nil, &Error{Code: CodeMalformed, Why: fmt.Sprintf("there is no list of messages (%s) for the format %s", strings.Join(r.spec.lists, " or "), r.format)}
		}
		return nil, nil
	case r.depth == 0:
		v, err := r.value()
		if err == nil {
			err = &Error{Code: CodeMalformed, At: v.position(), Why: "a transcript is a list of messages, or an object that holds one"}
		}
		return nil, err
	}
	name, err := r.dec.ReadToken()
	if err != nil {
		return nil, r.failed(err)
	}
	return r.member(name.String())
}

// member reads one of the envelope's.
func (r *Reader) member(name string) (*Message, error) {
	ptr := "/" + pointerToken([]byte(name))
	kind := r.dec.PeekKind()
	switch {
	case slices.Contains(r.spec.lists, name) && kind == '[':
		if r.lists > 0 {
			return nil, &Error{Code: CodeMalformed, Why: "there are two lists of messages", At: Position{Offset: r.dec.InputOffset(), Pointer: ptr}}
		}
		return nil, r.enter(ptr)
	case r.format == Sampling && name == "params" && kind == '{' && r.depth == 1: // sampling/createMessage as a request
		_, err := r.dec.ReadToken()
		r.depth++
		return nil, err
	}
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	v.ptr = ptr
	switch {
	case slices.Contains(r.spec.lists, name) && r.format == Responses && v.isText():
		r.lists++
		return r.p.message(v, -1, func(p *parser, v place) { p.add(Item{Kind: User, Content: v.b}, v) }), nil
	case slices.Contains(r.spec.lists, name):
		return nil, &Error{Code: CodeMalformed, At: v.position(), Why: "the messages are not a list"}
	case slices.Contains(r.spec.system, name) && v.ok():
		return r.p.message(v, -1, func(p *parser, v place) { p.add(Item{Kind: System, Content: v.b}, v) }), nil
	case slices.Contains(r.spec.refs, name) && v.ok():
		return r.p.message(v, -1, func(p *parser, v place) { p.add(Item{Kind: Reference, Type: name}, v) }), nil
	case r.format == AGUI && name == "resume" && v.ok():
		return r.p.message(v, -1, readResume), nil
	}
	for _, known := range slices.Concat(r.spec.lists, r.spec.system, r.spec.refs) {
		if name != known && strings.EqualFold(name, known) {
			m := r.p.message(v, -1, func(*parser, place) {})
			m.Notes = append(m.Notes, finding(CodeCaseVariant, v.position(), "%q is not %q", cut(name, 64), known))
			return m, nil
		}
	}
	return nil, nil
}

// enter begins the list.
func (r *Reader) enter(ptr string) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return r.failed(err)
	}
	r.list[0] = int(r.dec.InputOffset())
	r.state, r.ptr, r.lists = within, ptr, r.lists+1
	return nil
}

// Read reads a transcript whole. It keeps source, which must not be changed.
func Read(source []byte, f Format, lim Limits) (*Transcript, error) {
	return readAll(source, f, lim, func(*Message) {})
}

// ReadAndCheck is Read and [Check] in one walk over the source. What cannot be read
// on is a finding, as in Check, and there is no transcript then.
func ReadAndCheck(source []byte, f Format, lim Limits) (*Transcript, Report, error) {
	c := NewChecker(f, lim)
	t, err := readAll(source, f, lim, c.Message)
	switch complete, broken := c.stopped(err); {
	case broken != nil:
		return nil, Report{}, broken
	case !complete:
		return nil, c.Report(false), nil
	}
	return t, c.Report(true), nil
}

// readAll reads a transcript whole and shows each message as it comes.
func readAll(source []byte, f Format, lim Limits, see func(*Message)) (*Transcript, error) {
	r, err := NewReader(bytes.NewReader(source), f, lim)
	if err != nil {
		return nil, err
	}
	r.source = source
	t := &Transcript{Format: f, Source: source}
	for {
		m, err := r.Next()
		if err == io.EOF {
			t.list = r.list
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		see(m)
		t.keep(m)
	}
}

// keep adds a copy of a message, whose items the reader uses again.
func (t *Transcript) keep(m *Message) {
	kept := *m
	kept.Items = slices.Clone(m.Items)
	kept.Notes = slices.Clone(m.Notes)
	if m.Index >= 0 {
		t.Messages = append(t.Messages, kept)
		return
	}
	for _, i := range kept.Items {
		if i.Kind == System {
			t.system = append(t.system, i)
		} else {
			t.outside = append(t.outside, i)
		}
	}
	t.notes = append(t.notes, kept.Notes...)
}

// parser makes items of a message.
type parser struct {
	format Format
	msg    Message
	list   []member // of all objects of this message
	next   int      // index of the next message
	stream *stream  // of AG-UI's events
	total  int      // items so far
}

func (p *parser) message(v place, index int, read func(*parser, place)) *Message {
	p.msg = Message{Index: index, At: v.position(), Raw: v.b, Items: p.msg.Items[:0], Notes: p.msg.Notes[:0]}
	p.list = p.list[:0]
	read(p, v)
	return &p.msg
}

// object looks up the members of v; of what is no object it has none.
func (p *parser) object(v place) object {
	start := len(p.list)
	for m := range members(v.b) {
		p.list = append(p.list, m)
	}
	return object{v, p.list[start:len(p.list):len(p.list)]}
}

// known reports the members of o that are not among names.
func (p *parser) known(o object, names ...string) {
next:
	for i := range o.list {
		m := &o.list[i]
		for _, n := range names {
			if string(m.name) == n {
				continue next
			}
		}
		v := o.at1(m)
		for _, n := range names {
			if strings.EqualFold(string(m.name), n) {
				p.note(finding(CodeCaseVariant, v.position(), "%q is not %q", cut(string(m.name), 64), n))
				continue next
			}
		}
		p.note(finding(CodeUnknownField, v.position(), "the format does not know the member %q", cut(string(m.name), 64)))
	}
}

func (p *parser) note(f Finding) {
	f.Message = p.msg.Index
	p.msg.Notes = append(p.msg.Notes, f)
}

// add adds an item that stands at v.
func (p *parser) add(i Item, v place) *Item {
	i.Index, i.Message, i.At, i.Raw = p.total, p.msg.Index, v.position(), v.b
	if i.Role == "" {
		i.Role = p.msg.Role
	}
	if i.member == "" {
		i.part = -1
	}
	if i.Kind == Call && i.Tool == "" && i.Bad == "" {
		i.Bad = "it names no tool"
	}
	p.total++
	if i.Kind == Result || i.Kind == User || i.Kind == Assistant {
		i.Digest = contentDigest(i.Content)
	}
	p.msg.Items = append(p.msg.Items, i)
	return &p.msg.Items[len(p.msg.Items)-1]
}

// unknown adds what the format does not know.
func (p *parser) unknown(kind string, member string, part int, v place) {
	p.add(Item{Kind: Unknown, Type: cut(kind, 64), member: member, part: part}, v)
	p.note(finding(CodeUnknownPart, v.position(), "the format does not know the type %q", cut(kind, 64)))
}

// argumentLimits are those of a call's arguments; the message bounds them already.
var argumentLimits = canon.Limits{Bytes: 32 << 20, Depth: 64, Members: 1 << 20}

// arguments takes a call's arguments: a string of JSON, or JSON.
func (i *Item) arguments(v place) {
	text := v.b
	if v.isText() {
		text = unquote(v.b)
	}
	i.Arguments = text
	canonical, _, err := canon.Object(text, argumentLimits)
	if err != nil {
		i.Bad = "the arguments are not an object of strict JSON"
		var e *canon.Error
		if errors.As(err, &e) {
			i.Bad = "the arguments are refused: " + e.Reason
		}
		return
	}
	i.Digest = argumentsDigest(canonical)
}

// label takes the ID that pairs.
func (i *Item) label(v place) {
	i.ID, i.HasID = v.text(), v.isText()
}
