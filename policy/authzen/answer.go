package authzen

import (
	"errors"
	"fmt"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/policy"
)

// Decision is the answer to a whole question.
type Decision struct {
	Allowed bool
	// The rest is about the first resource that was denied.
	Denied int    // its index
	ID     string // context.id: what the decision point names as the reason's ID; may be empty
	User   string // context.reason_user, which a user may read
	Admin  string // context.reason_admin, and whatever else operators should know
}

// parse reads one strict JSON object. Members that nobody knows are ignored, as
// the specification wants; a member that differs from a known one only in case is
// not unknown but ambiguous.
func parse(text []byte) ([]byte, error) {
	object, err := canon.Canonical(text, canon.Limits{Bytes: mostBytes})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer is not strict JSON: %w", err)
	case object[0] != '{':
		return nil, errors.New("the answer is not an object")
	}
	return object, nil
}

// member finds a member of a canonical object by its exact name.
func member(object []byte, name string) (value []byte, found bool, err error) {
	for n, v := range canon.Members(object) {
		switch {
		case n == name:
			value, found = v, true
		case strings.EqualFold(n, name):
			return nil, false, fmt.Errorf("the answer has a member %.40q, which is %q in another case", n, name)
		}
	}
	return value, found, nil
}

// decision reads an access evaluation response (section 6.2), or one element of
// several.
func decision(object []byte) (Decision, error) {
	var d Decision
	if len(object) == 0 || object[0] != '{' {
		return d, errors.New("a decision is not an object")
	}
	value, _, err := member(object, "decision")
	if err != nil {
		return d, err
	}
	switch string(value) {
	case "true":
		d.Allowed = true
	case "false":
	case "":
		return d, errors.New("the answer has no decision")
	default:
		return d, errors.New("the decision is neither true nor false")
	}
	context, found, err := member(object, "context")
	switch {
	case err != nil:
		return d, err
	case found && context[0] != '{':
		return d, errors.New("the decision's context is not an object")
	}
	failed, err := fault(context)
	if err != nil {
		return d, err
	}
	obliged := obligation(object)
	if obliged == "" {
		obliged = obligation(context)
	}
	switch {
	case d.Allowed && failed != "":
		return d, errors.New("the answer allows and reports an error with it")
	case d.Allowed && obliged != "":
		return d, fmt.Errorf("the answer allows under an obligation that is not understood here: %s", obliged)
	case d.Allowed:
		return d, nil
	}
	d.ID = text(context, "id")
	d.User, d.Admin = reason(context, "reason_user"), reason(context, "reason_admin")
	for _, more := range []string{text(context, "reason"), failed} {
		if d.Admin == "" {
			d.Admin = more
		}
	}
	if obliged != "" {
		// The no holds; that nobody does what was demanded with it should be known.
		d.Admin = policy.Tidy(strings.TrimSpace(d.Admin + " (with an obligation that is not carried out: " + obliged + ")"))
	}
	return d, nil
}

// obligation says which obligation an object carries, or "". Obligations stand in
// context.obligations (Obligations Profile, section 3); one in any like place, or
// in a form that is not the profile's, counts too.
func obligation(object []byte) string {
	for name, value := range canon.Members(object) {
		if !strings.EqualFold(name, "obligations") && !strings.EqualFold(name, "obligation") || string(value) == "[]" {
			continue
		}
		for one := range canon.Elements(value) {
			if kind := text(one, "type"); kind != "" {
				return fmt.Sprintf("%.40q", kind)
			}
		}
		return "one without a type"
	}
	return ""
}

// fault reads context.error, by which one evaluation of several fails (section
// 7.2.1). A decision point that failed itself has not decided.
func fault(context []byte) (string, error) {
	value, found := canon.Lookup(context, "error")
	if !found {
		return "", nil
	}
	if status, ok := canon.Lookup(value, "status"); ok && len(status) == 3 && status[0] == '5' {
		return "", fmt.Errorf("the decision point reports the error %s for an evaluation", status)
	}
	if message := text(value, "message"); message != "" {
		return message, nil
	}
	return "the decision point reports an error for this evaluation", nil
}

// reason reads a reason field: texts by language (section 5.5.1), English if it is there.
func reason(context []byte, name string) string {
	value, found := canon.Lookup(context, name)
	if !found {
		return ""
	}
	if value[0] == '"' {
		return text(context, name)
	}
	first := ""
	for language := range canon.Members(value) {
		if first == "" || strings.HasPrefix(language, "en") && !strings.HasPrefix(first, "en") {
			first = language
		}
	}
	return text(value, first)
}

// text is a member that is a string, bounded and printable, or "".
func text(object []byte, name string) string {
	value, found := canon.Lookup(object, name)
	if !found {
		return ""
	}
	s, ok := canon.Text(value)
	if !ok {
		return ""
	}
	return policy.Tidy(s)
}

// decisions reads an access evaluations response (section 7.2) to n questions.
func decisions(object []byte, n int, s Semantic) (Decision, error) {
	all := Decision{Allowed: true}
	list, found, err := member(object, "evaluations")
	switch {
	case err != nil:
		return Decision{}, err
	case !found || list[0] != '[':
		return Decision{}, errors.New("the answer has no list of evaluations")
	}
	shared, _ := canon.Lookup(object, "context")
	if o := obligation(object) + obligation(shared); o != "" {
		return Decision{}, fmt.Errorf("the answer carries an obligation that is not understood here: %s", o)
	}
	count := 0
	for one := range canon.Elements(list) {
		d, err := decision(one)
		if err != nil {
			return Decision{}, err
		}
		if all.Allowed && !d.Allowed {
			all, all.Denied = d, count
		}
		count++
	}
	// Who stops at the first no answers what was asked up to there.
	if stopped := s == DenyOnFirstDeny && !all.Allowed && count == all.Denied+1 && count < n; count != n && !stopped {
		return Decision{}, fmt.Errorf("%d decisions were asked for, and the answer has %d", n, count)
	}
	return all, nil
}
