package identity

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

const maxName = 512 // bytes of a subject, agent, tenant, scope or group

// printable reports whether a name can be shown, compared and recorded without
// doubt: neither empty nor long, no control or invisible formatting characters.
func printable(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// claim finds a claim by name. A name with a slash is taken whole, as the names
// are that providers qualify by URL; any other is a path with dots.
func claim(claims []byte, name string) ([]byte, bool) {
	if strings.Contains(name, "/") {
		return canon.Lookup(claims, name)
	}
	return canon.LookupPath(claims, name)
}

// firstClaim finds the first of several claims that is present.
func firstClaim(claims []byte, names []string) (name string, value []byte, ok bool) {
	for _, name := range names {
		if value, ok := claim(claims, name); ok {
			return name, value, true
		}
	}
	return "", nil, false
}

// nameClaim reads a claim that must be a printable text.
func nameClaim(claims []byte, name string) (text, problem string) {
	value, ok := claim(claims, name)
	if !ok {
		return "", "the token has no " + name
	}
	if text, ok = canon.Text(value); !ok || !printable(text) {
		return "", "the token's " + name + " is not a text, or is empty, too long or holds control characters"
	}
	return text, ""
}

// listClaim reads a claim that is a list of texts or one text, which separator
// takes apart unless it is "". Empty parts and repeats are dropped.
func listClaim(value []byte, separator string) ([]string, bool) {
	var out []string
	if text, ok := canon.Text(value); ok {
		out = []string{text}
		if separator != "" {
			out = strings.Split(text, separator)
		}
		out = slices.DeleteFunc(out, func(s string) bool { return s == "" })
	} else {
		if len(value) == 0 || value[0] != '[' {
			return nil, false
		}
		for e := range canon.Elements(value) {
			text, ok := canon.Text(e)
			if !ok || separator != "" && strings.Contains(text, separator) {
				return nil, false
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out, all(out, printable)
}

// timeClaim reads a NumericDate (RFC 7519 section 2).
func timeClaim(claims []byte, name string) (at time.Time, present, ok bool) {
	value, present := canon.Lookup(claims, name)
	if !present {
		return time.Time{}, false, true
	}
	const year9999 = 253402300800
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(seconds >= 0 && seconds < year9999) {
		return time.Time{}, true, false
	}
	return time.Unix(int64(seconds), 0), true, true
}

// fleeting names claims that differ between tokens of one session, or say nothing
// of the caller. Policies do not see them.
var fleeting = []string{"aio", "at_hash", "auth_time", "c_hash", "exp", "iat", "jti", "nbf", "nonce", "rh", "s_hash", "session_state", "sid", "uti"}

// publicClaims is what policies see: canonical, since what it leaves out changes no order.
func publicClaims(claims []byte) json.RawMessage {
	out := bytes.NewBuffer(make([]byte, 0, len(claims)))
	out.WriteByte('{')
	for name, value := range canon.Members(claims) {
		if slices.Contains(fleeting, name) {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		quoted, err := canon.Marshal(name)
		if err != nil {
			continue // cannot be: the name came out of canonical text
		}
		out.Write(quoted)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// tenantOf reads the tenant that an issuer's token speaks for.
func (i Issuer) tenantOf(claims []byte) (record.TenantID, error) {
	if i.Tenant != "" {
		return record.TenantID(i.Tenant), nil
	}
	name, problem := nameClaim(claims, i.TenantClaim)
	if problem != "" {
		return "", refuse(checkTenant, record.Unauthenticated, "%s", problem)
	}
	if !slices.Contains(i.Tenants, name) {
		return "", refuse(checkTenant, record.Unauthenticated, "the issuer does not speak for the tenant that the token names; tenants are listed per issuer")
	}
	return record.TenantID(name), nil
}

func (i Issuer) scopesOf(claims []byte) ([]string, error) {
	name, value, ok := firstClaim(claims, i.Claims.Scopes)
	if !ok {
		return nil, nil
	}
	scopes, ok := listClaim(value, " ")
	if !ok {
		return nil, refuse(checkScopes, record.Unauthenticated, "the token's %s is neither a text nor a list of texts without spaces", name)
	}
	return scopes, nil
}

// groupsOf reads the groups an issuer asserts. A token that says its groups are
// elsewhere is refused: a rule about a group would not see the membership.
func (i Issuer) groupsOf(claims []byte) ([]record.Group, error) {
	if i.Claims.Groups == "" {
		return nil, nil
	}
	if overage(claims, i.Claims.Groups) {
		return nil, refuse(checkOverage, record.Unauthenticated, "groups overage: the token leaves its groups out because there are too many, and says where they could be asked for; let the issuer send only the groups assigned to this application, or roles")
	}
	value, ok := claim(claims, i.Claims.Groups)
	if !ok {
		return nil, nil
	}
	names, ok := listClaim(value, "")
	if !ok {
		return nil, refuse(checkGroups, record.Unauthenticated, "the token's %s is not a list of texts, or one is empty, too long or holds control characters", i.Claims.Groups)
	}
	var groups []record.Group
	for _, name := range names {
		groups = append(groups, record.Group{Issuer: i.Issuer, Name: name})
	}
	return groups, nil
}

// overage reports whether a token says that its groups are elsewhere: as a
// distributed claim (OpenID Connect Core section 5.6.2), or in one of the forms in
// which Entra points to its directory.
func overage(claims []byte, name string) bool {
	top := name
	if !strings.Contains(name, "/") {
		top, _, _ = strings.Cut(name, ".")
	}
	names, _ := canon.Lookup(claims, "_claim_names")
	sources, _ := canon.Lookup(claims, "_claim_sources")
	has, _ := canon.Lookup(claims, "hasgroups")
	value, _ := canon.Lookup(claims, top)
	pointer, isText := canon.Text(value)
	_, distributed := canon.Lookup(names, top)
	_, pointed := canon.Lookup(sources, pointer)
	if distributed || isText && pointed || string(has) == "true" || string(has) == `"true"` {
		return true
	}
	for member := range canon.Members(claims) {
		if strings.HasPrefix(member, top+":") { // groups:src1
			return true
		}
	}
	return false
}

// agentOf reads which workload acts. Problems are kept and told to callers only:
// a person has no agent.
func (i Issuer) agentOf(claims []byte, actors []string) (record.AgentID, string) {
	name, _, ok := firstClaim(claims, i.Claims.Agent)
	if !ok {
		return "", "the token names no agent: it has none of " + strings.Join(i.Claims.Agent, ", ")
	}
	if i.passedOver(name, actors) {
		return "", "somebody acts for this token's subject (act), and is not named by any of " + strings.Join(i.Claims.Agent, ", ") + " that begins with act"
	}
	text, problem := nameClaim(claims, name)
	return record.AgentID(text), problem
}
