package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/placet-dev/placet/record"
)

// maxText bounds a layer's texts: they travel to models, events and pages.
const maxText = 1000

// settle makes an opinion one that can be acted on. Who spoke comes from the
// set and not from the answer; whatever is not a known answer denies.
func (s *Set) settle(l Layer, in *Input, o Opinion) Opinion {
	o.Layer, o.Version, o.Mode, o.Part = l.Name(), l.Version(), modeOf(l), nil
	err := o.Err
	if err == nil {
		err = s.check(in, &o)
	}
	r := record.Reason{
		Rule:    "layer " + o.Layer,
		Place:   strings.Join(o.Places, " "),
		Version: o.Version.String(),
		Observe: o.Mode == Observe,
	}
	if err != nil {
		o.Err, o.Verdict, o.Ask, o.Part = err, record.Deny, nil, nil
		r.Verdict, r.Code, r.Private = record.Deny, record.CodeCannotDecide, Tidy(err.Error())
		o.Reason = r
		return o
	}
	r.Verdict, r.Code = o.Verdict, codeOf(o.Verdict)
	r.Public, r.Private, r.Instead = Tidy(o.Reason.Public), Tidy(o.Reason.Private), Tidy(o.Reason.Instead)
	o.Reason = r
	return o
}

// check finds what cannot be acted on, and resolves the approvers.
func (s *Set) check(in *Input, o *Opinion) error {
	switch o.Verdict {
	case record.Allow, record.Deny, record.RequiresApproval:
	default:
		return fmt.Errorf("%.40q is not a verdict", string(o.Verdict))
	}
	if len(o.Obligations) > 0 {
		return fmt.Errorf("obligation %.40q is not known here", o.Obligations[0])
	}
	if o.Ask == nil {
		return nil
	}
	if o.Verdict != record.RequiresApproval {
		return fmt.Errorf("an approval is given with verdict %s", o.Verdict)
	}
	if o.Ask.Quorum < 0 || o.Ask.Expires < 0 {
		return errors.New("quorum and expiry of an approval cannot be negative")
	}
	if len(o.Ask.Approvers) == 0 {
		return nil // the configured default holds
	}
	if s.resolve == nil {
		return errors.New("approvers are named, and none can be resolved here")
	}
	part := record.ApprovalPart{From: o.Layer, Quorum: max(o.Ask.Quorum, 1)}
	for _, ref := range o.Ask.Approvers {
		if err := s.resolve(in, ref, &part); err != nil {
			return fmt.Errorf("approver %.80q: %w", ref, err)
		}
	}
	if len(part.Groups) == 0 && len(part.People) == 0 && !part.Principal {
		return errors.New("the approvers resolve to nobody")
	}
	o.Part = &part
	return nil
}

func codeOf(v record.Verdict) record.Code {
	switch v {
	case record.Allow:
		return record.CodeNone
	case record.RequiresApproval:
		return record.CodePolicyAsks
	default:
		return record.CodePolicyDenied
	}
}

// Tidy bounds a text and takes out what could disturb a terminal, a log line
// or a page: control and invisible formatting characters become spaces.
func Tidy(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " ")))
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + " …"
}
