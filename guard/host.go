package guard

import (
	"context"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nlnwa/whatwg-url/url"
	"github.com/placet-dev/placet/canon"
	"golang.org/x/net/idna"
)

// hostname is a host as everybody must read it: a name in ASCII, or an address.
type hostname struct {
	name string     // lower case, A-labels, no dot at the end; or the address's text
	addr netip.Addr // valid when the host is an address
	odd  bool       // an address in a spelling that is a name for some
}

// names46 is how international names are read (UTS 46, not transitional), on top of
// what the URL standard does: right-to-left labels and joiners are checked.
var names46 = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckJoiners(true),
	idna.CheckHyphens(false), idna.StrictDomainName(false))

// hostPart is what may stand for a host: no delimiter of a URL, no percent sign.
var hostPart = regexp.MustCompile(`^[^\s/\\?#@%:\[\]<>"|^{}` + "`" + `]+$`)

// hostOf reads a text as a host, in the WHATWG's way, and refuses where the
// reading of names by the rules of IDNA gives another.
func hostOf(text string) (hostname, *Refusal) {
	if strings.HasPrefix(text, "[") || strings.Count(text, ":") > 1 {
		return address6(text)
	}
	if !hostPart.MatchString(text) || strings.ContainsFunc(text, unprintable) {
		return hostname{}, refuse("must be the name of a host")
	}
	u, err := url.Parse("https://" + text + "/")
	if err != nil || u.Username() != "" || u.Password() != "" || u.Port() != "" || u.Pathname() != "/" {
		return hostname{}, refuse("must be the name of a host")
	}
	return readHost(u.Hostname(), text)
}

func address6(text string) (hostname, *Refusal) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil || a.Zone() != "" || strings.HasPrefix(text, "[") != strings.HasSuffix(text, "]") {
		return hostname{}, refuse("must be the name of a host")
	}
	return hostname{name: a.String(), addr: a}, nil
}

// readHost takes the WHATWG reading of a host and the text that it was read from.
func readHost(read, text string) (hostname, *Refusal) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(read, "["), "]")); err == nil {
		plain, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
		return hostname{name: a.String(), addr: a, odd: err != nil || plain != a}, nil
	}
	name := strings.TrimSuffix(read, ".")
	again, err := names46.ToASCII(strings.TrimSuffix(text, "."))
	shown, err2 := names46.ToUnicode(name)
	switch {
	case numeric(name):
		return hostname{}, private("the host is a number that some resolvers read as an address")
	case err != nil || err2 != nil || again != name || !plainName(name):
		return hostname{}, refuse("names a host in a way that is read differently in different places")
	}
	for label := range strings.SplitSeq(shown, ".") {
		if confusable(label) {
			return hostname{}, refuse("names a host with letters that look like others")
		}
	}
	return hostname{name: name}, nil
}

// label is one part of a name in ASCII. Underscores occur in names that work.
var label = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

func plainName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for l := range strings.SplitSeq(name, ".") {
		if !label.MatchString(l) {
			return false
		}
	}
	return true
}

// numeric reports whether a name's last label is a number: resolvers of the C
// library read such a name as an address (127.1, 2130706433, 0x7f000001).
func numeric(name string) bool {
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	return numericLabel.MatchString(last)
}

var numericLabel = regexp.MustCompile(`^([0-9]+|0[xX][0-9a-fA-F]*)$`)

// internal are suffixes of names that lead into somebody's own network (RFC 6761,
// RFC 6762, RFC 8375, and what is used in practice), where no resolver that is
// asked from here need say so.
var internal = []string{"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa", "localdomain", "svc", "cluster.local"}

func isInternal(name string) bool {
	if !strings.Contains(name, ".") {
		return true
	}
	return slices.ContainsFunc(internal, func(s string) bool { return name == s || strings.HasSuffix(name, "."+s) })
}

// hosts is which hosts may be named.
type hosts struct {
	allowed  []string // in ASCII; "*.example.com" is every name below; nil: every public host
	networks []netip.Prefix
}

func newHosts(key string, allowed, networks []string) (hosts, error) {
	h := hosts{}
	for _, a := range allowed {
		name, wild := strings.CutPrefix(a, "*.")
		read, refusal := hostOf(name)
		if refusal != nil || wild && read.addr.IsValid() {
			return h, wrong(key, "holds %q, which is no host name; write example.com or *.example.com", a)
		}
		if wild {
			read.name = "*." + read.name
		}
		h.allowed = append(h.allowed, read.name)
	}
	if allowed != nil && len(allowed) == 0 {
		return h, wrong(key, "is empty; list a host or remove the key")
	}
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil || p.Masked() != p {
			return h, wrong("networks", "holds %q, which is no network such as 10.20.0.0/16", n)
		}
		h.networks = append(h.networks, p)
	}
	return h, nil
}

// admits says whether a host may be named, as far as its text tells.
func (h hosts) admits(n hostname) *Refusal {
	listed := h.lists(n.name)
	switch {
	case n.addr.IsValid() && !Public(n.addr) && !within(n.addr, h.networks):
		return private("an address in a private or special range")
	case n.odd:
		return refuse("names a host in a way that is read differently in different places")
	case h.allowed != nil && !listed:
		return refuse("names a host that this tool may not use")
	case !n.addr.IsValid() && !listed && isInternal(n.name):
		return private("a name of an internal network")
	}
	return nil
}

func (h hosts) lists(name string) bool {
	return slices.ContainsFunc(h.allowed, func(a string) bool {
		parent, wild := strings.CutPrefix(a, "*")
		return a == name || wild && strings.HasSuffix(name, parent) && len(name) > len(parent)
	})
}

// isHost is the rule for an argument that names a host to connect to.
type isHost struct{ hosts }

func newHost(s Spec) (rule, error) {
	h, err := newHosts("hosts", s.Hosts, s.Networks)
	return isHost{h}, err
}

func (h isHost) accept(v value) (json.RawMessage, *Refusal) {
	n, refusal := h.read(v)
	if refusal != nil {
		return nil, refusal
	}
	return canon.AppendText(nil, n.name), nil
}

func (h isHost) read(v value) (hostname, *Refusal) {
	text, refusal := v.text()
	if refusal != nil {
		return hostname{}, refusal
	}
	n, refusal := hostOf(text)
	if refusal == nil {
		refusal = h.admits(n)
	}
	return n, refusal
}

func (h isHost) examine(ctx context.Context, v value, w World) *Refusal {
	n, refusal := h.read(v)
	if refusal != nil {
		return refusal
	}
	return h.resolves(ctx, n, "", w)
}

// confusable reports whether a label could pass for another one: it mixes scripts
// that no language mixes (UTS 39, highly restrictive), or all its letters are
// drawn like Latin ones.
func confusable(label string) bool {
	scripts := map[string]bool{}
	latinLike := true
	for _, r := range label {
		s := script(r)
		if s != "" {
			scripts[s] = true
			latinLike = latinLike && strings.ContainsRune(likeLatin, r)
		}
	}
	switch {
	case len(scripts) <= 1:
		return len(scripts) == 1 && !scripts["Latin"] && latinLike
	case scripts["Cyrillic"], scripts["Greek"], scripts["Armenian"], scripts["Cherokee"]:
		return true
	}
	for _, together := range [][]string{{"Latin", "Han", "Hiragana", "Katakana"}, {"Latin", "Han", "Bopomofo"}, {"Latin", "Han", "Hangul"}} {
		if all(scripts, together) {
			return false
		}
	}
	return true
}

func all(scripts map[string]bool, of []string) bool {
	for s := range scripts {
		if !slices.Contains(of, s) {
			return false
		}
	}
	return true
}

// likeLatin are letters of other scripts that are drawn like Latin ones in common
// fonts.
const likeLatin = "асԁеһіјӏкмнорԛѕтԝхуѵъьпгҽѡ" + "αικνρυωηοτγχ" + "օսհոցյզլ"

// script is the name of a character's script; "" for what all scripts share.
func script(r rune) string {
	if unicode.In(r, unicode.Common, unicode.Inherited) {
		return ""
	}
	if r <= unicode.MaxLatin1 {
		return "Latin"
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return "unknown"
}
