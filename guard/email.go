package guard

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
)

// isEmail is the rule for an address that something is sent to: one bare address
// (RFC 5321, section 4.1.2; RFC 6531 for letters beyond ASCII), without a display
// name, a comment, a quoted part or a route.
type isEmail struct {
	domains   hosts
	addresses []string // folded
}

// localPart leaves out what RFC 5321 allows and relays, shells or headers read as
// their own: % ! | ` $ & / and quotes.
var localPart = regexp.MustCompile(`^[\p{L}\p{M}\p{N}_+'=~-]+(\.[\p{L}\p{M}\p{N}_+'=~-]+)*$`)

func newEmail(s Spec) (rule, error) {
	e := isEmail{}
	var err error
	if e.domains, err = newHosts("domains", s.Domains, nil); err != nil {
		return nil, err
	}
	for _, a := range s.Addresses {
		local, domain, refusal := splitEmail(a)
		if refusal != nil {
			return nil, wrong("addresses", "holds %q, which is no plain address", a)
		}
		e.addresses = append(e.addresses, folded(local, domain))
	}
	return e, nil
}

func (e isEmail) accept(v value) (json.RawMessage, *Refusal) {
	text, refusal := v.text()
	if refusal != nil {
		return nil, refusal
	}
	local, domain, refusal := splitEmail(text)
	switch {
	case refusal != nil:
		return nil, refusal
	case e.domains.allowed == nil && e.addresses == nil,
		e.domains.allowed != nil && e.domains.lists(domain),
		slices.Contains(e.addresses, folded(local, domain)):
		return canon.AppendText(nil, local+"@"+domain), nil
	}
	return nil, refuse("is an address that this tool may not send to")
}

// splitEmail reads one address; the domain is in ASCII.
func splitEmail(text string) (local, domain string, refusal *Refusal) {
	no := refuse("must be one plain mail address, without a name beside it")
	at := strings.LastIndexByte(text, '@')
	if at < 1 || len(text) > 254 || strings.ContainsFunc(text, unprintable) {
		return "", "", no
	}
	local = text[:at]
	if len(local) > 64 || !utf8.ValidString(local) || !localPart.MatchString(local) {
		return "", "", no
	}
	host, refusal := hostOf(text[at+1:])
	switch {
	case refusal != nil:
		return "", "", refusal
	case host.addr.IsValid() || !strings.Contains(host.name, "."):
		return "", "", no
	case confusable(strings.ToLower(local)):
		return "", "", refuse("is a mail address with letters that look like others")
	}
	return local, host.name, nil
}

// folded is an address for comparison only: without what is added after a plus,
// in lower case. What is sent to keeps its own spelling.
func folded(local, domain string) string {
	local, _, _ = strings.Cut(local, "+")
	return strings.ToLower(local) + "@" + domain
}
