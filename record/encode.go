package record

import (
	"strconv"
	"time"

	"github.com/placet-dev/placet/canon"
)

// Events are written on the way of every call, four for one that runs. They are
// encoded by hand because reflection was a tenth of a decision; a test holds that
// the result reads back as what it was made from.

// members appends an object's members, leaving out empty ones.
type members struct {
	b     []byte
	after bool
}

func (m *members) name(n string) {
	if m.after {
		m.b = append(m.b, ',')
	}
	m.after = true
	m.b = append(m.b, '"')
	m.b = append(m.b, n...)
	m.b = append(m.b, '"', ':')
}

func (m *members) text(n, s string) {
	if s != "" {
		m.name(n)
		m.b = canon.AppendText(m.b, s)
	}
}

func (m *members) number(n string, v int64) {
	if v != 0 {
		m.name(n)
		m.b = strconv.AppendInt(m.b, v, 10)
	}
}

func (m *members) digest(n string, d canon.Digest) {
	if !d.IsZero() {
		m.text(n, d.String())
	}
}

func (m *members) time(n string, t time.Time) {
	if !t.IsZero() {
		m.name(n)
		m.b = append(m.b, '"')
		m.b = t.AppendFormat(m.b, time.RFC3339Nano)
		m.b = append(m.b, '"')
	}
}

func texts[T ~string](m *members, n string, list []T) {
	if len(list) == 0 {
		return
	}
	m.name(n)
	m.b = append(m.b, '[')
	for i, s := range list {
		if i > 0 {
			m.b = append(m.b, ',')
		}
		m.b = canon.AppendText(m.b, string(s))
	}
	m.b = append(m.b, ']')
}

func (m *members) reasons(n string, list []Reason) {
	if len(list) == 0 {
		return
	}
	m.name(n)
	m.b = append(m.b, '[')
	for i, r := range list {
		if i > 0 {
			m.b = append(m.b, ',')
		}
		o := members{b: append(m.b, '{')}
		o.name("rule")
		o.b = canon.AppendText(o.b, r.Rule)
		o.text("place", r.Place)
		o.name("verdict")
		o.b = canon.AppendText(o.b, string(r.Verdict))
		o.name("code")
		o.b = canon.AppendText(o.b, string(r.Code))
		o.text("public", r.Public)
		o.text("private", r.Private)
		o.text("instead", r.Instead)
		o.text("version", r.Version)
		if r.Observe {
			o.name("observe")
			o.b = append(o.b, "true"...)
		}
		m.b = append(o.b, '}')
	}
	m.b = append(m.b, ']')
}

func (m *members) flag(n string, set bool) {
	if set {
		m.name(n)
		m.b = append(m.b, "true"...)
	}
}

func (m *members) origins(n string, list []Origin) {
	if len(list) == 0 {
		return
	}
	m.name(n)
	m.b = append(m.b, '[')
	for i, from := range list {
		if i > 0 {
			m.b = append(m.b, ',')
		}
		o := members{b: append(m.b, '{')}
		o.name("argument")
		o.b = canon.AppendText(o.b, from.Argument)
		o.text("kind", from.Kind)
		o.name("origin")
		o.b = canon.AppendText(o.b, string(from.From))
		o.name("trusted")
		o.b = strconv.AppendBool(o.b, from.Trusted)
		o.flag("target", from.Target)
		o.flag("hidden", from.Hidden)
		o.name("digest")
		o.b = canon.AppendText(o.b, from.Digest)
		o.text("call", string(from.Call))
		o.text("tool", from.Tool)
		m.b = append(o.b, '}')
	}
	m.b = append(m.b, ']')
}

// encode is the body's JSON form.
func (b Body) encode() []byte {
	m := members{b: append(make([]byte, 0, 512), '{')}
	m.text("tool", b.Tool)
	m.text("verdict", string(b.Verdict))
	m.text("code", string(b.Code))
	m.reasons("reasons", b.Reasons)
	texts(&m, "labels", b.Labels)
	m.origins("origins", b.Origins)
	m.text("source", string(b.Source))
	m.text("route", string(b.Route))
	m.digest("argument_commitment", b.Arguments)
	m.digest("received_commitment", b.Received)
	m.digest("effect_commitment", b.Effect)
	m.digest("binding", b.Binding)
	m.digest("tool_version", b.Version)
	m.text("decided_by", b.DecidedBy)
	m.number("generation", b.Generation)
	m.number("attempt", int64(b.Attempt))
	m.text("idempotency_key", b.Key)
	m.time("lease", b.Lease)
	m.time("retry_after", b.Retry)
	m.digest("result_commitment", b.Result)
	m.number("turn", int64(b.Turn))
	texts(&m, "kept", b.Kept)
	if b.To != nil {
		m.name("to")
		m.b = b.To.AppendJSON(m.b)
	}
	m.time("until", b.Until)
	texts(&m, "scopes", b.Scopes)
	m.text("word", string(b.Word))
	m.text("note", b.Note)
	m.text("evidence", b.Evidence)
	m.text("detail", b.Detail)
	m.text("emission", string(b.Emission))
	if b.Model != nil {
		m.rare("model", b.Model)
	}
	m.flag("reported", b.Reported)
	if b.Alert != nil {
		m.rare("alert", b.Alert)
	}
	if b.Notice != nil {
		m.rare("notice", b.Notice)
	}
	texts(&m, "redacted", b.Redacted)
	m.text("transcript", string(b.Transcript))
	m.text("share", string(b.Share))
	m.text("parent", string(b.Parent))
	if b.Grant != nil {
		m.rare("grant", b.Grant)
	}
	m.text("session", b.Session)
	m.text("schedule", string(b.Schedule))
	m.time("next", b.Next)
	return append(m.b, '}')
}

// AppendJSON appends who it was.
func (w Who) AppendJSON(dst []byte) []byte {
	m := members{b: append(dst, '{')}
	if p := w.Principal; p != nil {
		m.name("principal")
		o := members{b: append(m.b, '{')}
		o.name("issuer")
		o.b = canon.AppendText(o.b, p.Issuer)
		o.name("subject")
		o.b = canon.AppendText(o.b, p.Subject)
		m.b = append(o.b, '}')
	}
	m.text("agent", string(w.Agent))
	m.text("workload", w.Workload)
	m.text("system", w.System)
	return append(m.b, '}')
}
