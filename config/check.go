package config

import (
	"fmt"
	"math/big"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var layerName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

// Check is the rules that tie keys together.
func (c *Config) Check(fail func(key, message string)) {
	if c.Version != 1 {
		fail("version", "is not known to this program; it reads version 1")
	}
	c.checkListen(fail)
	c.checkMetrics(fail)
	c.checkStore(fail)
	c.checkResource(fail)
	seen, clients := map[string]bool{}, 0
	for _, i := range c.Issuers {
		if i.Client != nil {
			clients++
		}
		if seen[i.Issuer] {
			fail("issuers", "lists "+i.Issuer+" twice")
		}
		seen[i.Issuer] = true
		if c.Console != nil && i.Issuer == c.Console.Issuer && i.Sender != "none" && i.Sender != "" {
			fail("console", "signs in at an issuer whose tokens must be bound (sender_constrained): a browser's sign-in has nothing to bind them to, so nobody could sign in; "+
				"let people sign in at an issuer of their own, or set sender_constrained: none, under which bound tokens are still checked")
		}
	}
	if clients > 1 {
		fail("issuers", "has two with client; whoever registers gets one client, so one issuer may have it")
	}
	if c.Console != nil && !seen[c.Console.Issuer] {
		fail("console", "signs in at an issuer that is not one of the issuers: whom its tokens name would not be known")
	}
	for _, i := range c.Issuers {
		if c.Console != nil && i.Client != nil && (i.Client.ID == c.Console.ClientID || i.Client.ID == c.Console.TerminalClient) {
			fail("console", "has the client that whoever registers gets: that one is for proposing, and people answer through another")
		}
	}
	layers := map[string]bool{}
	for _, l := range c.Policy.Layers {
		if layers[l.Name] {
			fail("policy", fmt.Sprintf("has two layers named %q", l.Name))
		}
		layers[l.Name] = true
	}
	c.checkIdentities(fail)
	c.checkPoints(fail)
	c.checkTrust(fail)
	c.checkCredentials(fail)
	c.checkReceivers(fail)
	c.checkProviders(fail)
	for _, w := range c.Workloads {
		if !layerName.MatchString(w.Key) {
			fail("workloads", "a name is lower-case letters, digits and _ . -, and starts with a letter")
		}
	}
}

func (c *Config) checkListen(fail func(key, message string)) {
	host, port, err := net.SplitHostPort(c.Listen)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		fail("listen", "wants address and port, such as 127.0.0.1:8088")
		return
	}
	ip := net.ParseIP(host)
	if c.TLS == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		fail("listen", "is beyond this machine, where plain HTTP is refused; set tls: {certificate: …, key: …} or listen on 127.0.0.1")
	}
	if c.PublicURL == "" {
		if ip != nil && ip.IsUnspecified() {
			fail("public_url", "is needed, since listen names no address that clients could open")
		}
		return
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		fail("public_url", "wants a URL such as https://tools.example.com")
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		fail("public_url", "must be https beyond this machine: tokens travel to it")
	}
}

// checkResource holds to RFC 9728 section 1.2, and lets other schemes through:
// some providers name resources by an ID URI of their own, such as api://placet.
func (c *Config) checkResource(fail func(key, message string)) {
	if c.Resource == "" {
		return
	}
	u, err := url.Parse(c.Resource)
	switch {
	case err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(c.Resource, " \"\\"):
		fail("resource", "wants a URL such as https://tools.example.com/mcp")
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		fail("resource", "must be https beyond this machine")
	case c.Resource == c.ConsoleAudience():
		fail("resource", "must not be public_url + /console: tokens for that may answer approvals")
	}
}

// Check is the rules of telemetry.
func (t *Telemetry) Check(fail func(key, message string)) {
	if u, err := url.Parse(t.Traces); t.Traces != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil) {
		fail("traces", "wants an http or https URL without a user, such as http://127.0.0.1:4318")
	}
	if t.Metrics == "" {
		return
	}
	host, port, err := net.SplitHostPort(t.Metrics)
	n, bad := strconv.Atoi(port)
	if err != nil || bad != nil || n < 0 || n > 65535 || net.ParseIP(host) == nil && host != "localhost" {
		fail("metrics", "wants address and port, such as 127.0.0.1:9464")
	}
}

// checkMetrics wants an address of its own: what is served there asks nobody who they are.
func (c *Config) checkMetrics(fail func(key, message string)) {
	if m := c.Telemetry.Metrics; m == c.Listen && m != "" && !strings.HasSuffix(m, ":0") {
		fail("telemetry", "metrics must not be at the address that calls come to")
	}
}

// Check is the rules of a policy.
func (p *Policy) Check(fail func(key, message string)) {
	if p.Timeout <= 0 || p.Timeout > 10*time.Second {
		fail("timeout", "must be more than 0 and at most 10s")
	}
}

// Check is the rules of a layer.
func (l *Layer) Check(fail func(key, message string)) {
	if !layerName.MatchString(l.Name) || l.Name == "registry" {
		fail("name", "is lower-case letters, digits and _ . -, starts with a letter, and is not registry")
	}
	if !strings.HasPrefix(l.Query, "data.") {
		fail("query", "wants a rule, such as data.agent.call.decision")
	}
}

// checkPoints compares decision points with one another and with the issuers.
func (c *Config) checkPoints(fail func(key, message string)) {
	names := map[string]bool{}
	for _, p := range c.Points {
		if names[p.Name] {
			fail("decision_points", fmt.Sprintf("has two named %q", p.Name))
		}
		names[p.Name] = true
		if len(c.Issuers) > 1 && !strings.Contains(p.Subject.ID, "{issuer}") {
			fail("decision_points", fmt.Sprintf("%q gets subjects without {issuer}, and there are several issuers: equal subjects of two would be one", p.Name))
		}
	}
}

// Check is the rules of a decision point.
func (p *DecisionPoint) Check(fail func(key, message string)) {
	if !layerName.MatchString(p.Name) {
		fail("name", "is lower-case letters, digits and _ . -, and starts with a letter")
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		fail("url", "wants a URL such as https://pdp.example.com")
	} else if u.Scheme == "http" && !loopbackHost(u.Hostname()) {
		fail("url", "must be https beyond this machine: whoever answers there decides")
	}
	if p.Timeout <= 0 || p.Timeout > 5*time.Second {
		fail("timeout", "must be more than 0 and at most 5s")
	}
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// Check is the rules of a decision point's subjects.
func (s *PointSubject) Check(fail func(key, message string)) {
	if s.Type == "" {
		fail("type", "wants a type, such as identity or user")
	}
	for _, name := range placeholder.FindAllString(s.ID, -1) {
		if !slices.Contains([]string{"{subject}", "{issuer}", "{tenant}"}, name) {
			fail("id", "knows {subject}, {issuer} and {tenant}, not "+name)
			return
		}
	}
	if !strings.Contains(s.ID, "{subject}") || strings.ContainsAny(placeholder.ReplaceAllString(s.ID, ""), "{}") {
		fail("id", "wants {subject}, without which all principals would be one, such as {subject}@{issuer}")
	}
}

// Check is the rules of an issuer.
func (i *Issuer) Check(fail func(key, message string)) {
	u, err := url.Parse(i.Issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		fail("issuer", "wants the issuer's URL, exactly as its tokens give it")
	} else if u.Scheme == "http" && !loopbackHost(u.Hostname()) {
		fail("issuer", "must be https beyond this machine: its keys are fetched from there")
	}
	if strings.HasPrefix(i.Keys, "http://") {
		if k, err := url.Parse(i.Keys); err != nil || !loopbackHost(k.Hostname()) {
			fail("keys", "must be https beyond this machine")
		}
	}
	if i.MaxTokenAge < time.Minute || i.MaxTokenAge > 24*time.Hour {
		fail("max_token_age", "must be between 1m and 24h")
	}
	if i.Skew < time.Second || i.Skew > 5*time.Minute {
		fail("skew", "must be between 1s and 5m")
	}
	claim, byClaim := cutClaim(i.Tenant)
	switch {
	case byClaim && claim == "":
		fail("tenant", "wants claims.NAME")
	case byClaim && len(i.Tenants) == 0:
		fail("tenants", "is needed with a claim: without the list, the issuer could name any tenant")
	case !byClaim && i.Tenants != nil:
		fail("tenants", "goes with tenant: claims.NAME; a constant tenant is the only one")
	}
}

// Check is the rules of a client.
func (c *Client) Check(fail func(key, message string)) {
	if c.ID == "" || strings.ContainsFunc(c.ID, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		fail("id", "wants the client_id as the provider gives it")
	}
	if c.CallbackPort < 1 || c.CallbackPort > 65535 {
		fail("callback_port", "wants a port, 1 to 65535")
	}
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkTrust ties authorities to the listener and to the workloads they certify.
func (c *Config) checkTrust(fail func(key, message string)) {
	if len(c.Trust) > 0 && c.TLS == nil {
		fail("trust", "needs tls: {certificate: …, key: …}; clients show certificates over TLS only")
	}
	if c.TLS == nil && slices.ContainsFunc(c.Issuers, func(i Issuer) bool { return i.Sender == "mtls" }) {
		fail("issuers", "sender_constrained: mtls needs tls: {certificate: …, key: …}; clients show certificates over TLS only")
	}
	plain, domains := map[string]bool{}, map[string]bool{}
	for _, a := range c.Trust {
		if !layerName.MatchString(a.Key) {
			fail("trust", "a name is lower-case letters, digits and _ . -, and starts with a letter")
		}
		plain[a.Key] = a.Value.CA != ""
		domains[a.Value.SPIFFE] = true
	}
	for _, w := range c.Workloads {
		domain, _, _ := strings.Cut(strings.TrimPrefix(w.Value.SPIFFE, "spiffe://"), "/")
		if w.Value.SPIFFE != "" && !domains[domain] {
			fail("workloads", w.Key+" has a SPIFFE ID of a trust domain that is not under trust")
		}
		if cert := w.Value.Certificate; cert != nil && !plain[cert.Authority] {
			fail("workloads", w.Key+" has a certificate of "+cert.Authority+", which is no plain authority (ca) under trust")
		}
	}
}

// Check is the rules of an authority.
func (a *Authority) Check(fail func(key, message string)) {
	switch {
	case (a.CA == "") == (a.SPIFFE == ""):
		fail("", "wants either ca or spiffe")
	case a.SPIFFE == "" && (a.Bundle != "" || a.WorkloadAPI != ""):
		fail("", "bundle and workload_api go with spiffe")
	case a.SPIFFE != "" && (a.Bundle == "") == (a.WorkloadAPI == ""):
		fail("spiffe", "wants either bundle or workload_api beside it")
	case a.WorkloadAPI != "" && !strings.HasPrefix(a.WorkloadAPI, "unix:///"):
		fail("workload_api", "wants a socket of this machine, unix:///PATH")
	}
}

// Check is the rules of a certificate.
func (c *Certificate) Check(fail func(key, message string)) {
	if (c.DNS == "") == (c.URI == "") {
		fail("authority", "wants either dns or uri beside it")
	}
	if strings.HasPrefix(strings.ToLower(c.URI), "spiffe:") {
		fail("uri", "is a SPIFFE ID; use spiffe, with its trust domain under trust")
	}
}

// Check is the rules of a workload.
func (w *Workload) Check(fail func(key, message string)) {
	if w.Key.IsZero() && w.SPIFFE == "" && w.Certificate == nil {
		fail("permissions", "are for nobody: the workload needs key, spiffe or certificate")
	}
	if w.SPIFFE != "" && w.Certificate != nil {
		fail("spiffe", "stands beside certificate; a workload has one of them")
	}
	if w.SPIFFE != "" && !strings.HasPrefix(w.SPIFFE, "spiffe://") {
		fail("spiffe", "wants a SPIFFE ID such as spiffe://example.org/support-app")
	}
	for i, p := range w.Permissions {
		if slices.Contains(w.Permissions[:i], p) {
			fail("permissions", "lists "+string(p)+" twice")
		}
	}
}

// Check is the rules of permissions: groups only, since a person's login may
// come from several issuers and groups are what each of them states.
func (p *Permissions) Check(fail func(key, message string)) {
	check := func(key string, refs []string) {
		for _, r := range refs {
			if name, ok := strings.CutPrefix(r, "group:"); !ok || name == "" || strings.HasPrefix(name, "@") {
				fail(key, "wants group:NAME or group:NAME@ISSUER")
			}
		}
	}
	check("operate", p.Operate)
	check("operate_all", p.OperateAll)
	check("read", p.Read)
}

// Check is the rules of runs.
func (r *Runs) Check(fail func(key, message string)) {
	positive := func(key string, is bool, message string) {
		if !is {
			fail(key, message)
		}
	}
	positive("idle", r.Idle > 0, "must be more than 0")
	positive("taint_lasts", r.TaintLasts > 0, "must be more than 0")
	positive("calls_per_turn", r.CallsPerTurn > 0, "must be 1 or more")
	positive("calls_per_run", r.CallsPerRun > 0, "must be 1 or more")
	positive("turns_per_run", r.TurnsPerRun >= 0, "must be 0 or more")
	positive("proposals_open", r.ProposalsOpen > 0, "must be 1 or more")
	positive("proposals_open_turn", r.OpenInTurn > 0, "must be 1 or more")
	positive("proposals_open_principal", r.OpenOfOne > 0, "must be 1 or more")
	positive("depth", r.Depth >= 0 && r.Depth <= 16, "must be 0 to 16")
	positive("fan_out", r.FanOut > 0, "must be 1 or more")
	checkMoney("money", r.Money, fail)
}

// Check is the rules of quota.
func (q *Quota) Check(fail func(key, message string)) {
	if q.Events > 0 && q.Reserve >= q.Events {
		fail("reserve", "must be less than events")
	}
	if q.Per < time.Minute || q.Per > 24*time.Hour {
		fail("per", "must be at least 1m and at most 24h")
	}
}

// Check is the rules of budgets.
func (b *Budgets) Check(fail func(key, message string)) { checkMoney("per_day", b.PerDay, fail) }

// mostMoney is what a counter of millionths holds without overflow.
var mostMoney = big.NewRat(1_000_000_000_000, 1)

func checkMoney(key string, m Money, fail func(key, message string)) {
	for _, l := range m {
		if !currency.MatchString(l.Key) {
			fail(key+"."+l.Key, "is no currency; write three capital letters, such as EUR")
		}
		if l.Value.Given() && l.Value.Rat().Cmp(mostMoney) > 0 {
			fail(key+"."+l.Key, "must be at most 1000000000000")
		}
	}
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// Check is the rules of history.
func (h *History) Check(fail func(key, message string)) {
	if h.Held < 1<<10 || h.Held > 256<<20 {
		fail("held", "between 1024 and 268435456 bytes")
	}
	if h.Bytes < h.Held || h.Bytes > 1<<30 {
		fail("bytes", "at least held, and at most 1073741824 bytes")
	}
}

// Check is the rules of ingress.
func (i *Ingress) Check(fail func(key, message string)) {
	if i.PerSecond < 0 {
		fail("per_second", "must be 0 or more")
	}
	if i.PerSecond > 0 && i.Burst < 1 {
		fail("burst", "must be 1 or more")
	}
}

// Check is the rules of calls.
func (c *Calls) Check(fail func(key, message string)) {
	if c.Expires < time.Minute {
		fail("expires", "must be 1m or more")
	}
	if c.Retention < 0 || c.Retention > 0 && c.Retention < time.Minute {
		fail("retention", "must be 1m or more, or 0 to keep calls for good")
	}
}

// Check is the rules of approvals.
func (a *Approvals) Check(fail func(key, message string)) {
	if a.Wait > 55*time.Second {
		fail("wait", "must be at most 55s: many clients give up at 60s and would never hear that a person is asked")
	}
}

// Check is the rules of the default approvers.
func (a *Approvers) Check(fail func(key, message string)) {
	people := 0
	for _, r := range a.Approvers {
		kind, name, ok := strings.Cut(r, ":")
		at := strings.LastIndex(name, "@")
		switch {
		case ok && kind == "group" && name != "" && at != 0:
			people = a.Quorum
		case ok && kind == "principal" && at > 0 && at < len(name)-1:
			people++
		default:
			fail("approvers", "wants group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER")
		}
	}
	if a.Quorum < 1 || a.Quorum > people && people > 0 {
		fail("quorum", "must be 1 or more, and no more than the persons there are")
	}
	if a.Expires < time.Minute {
		fail("expires", "must be 1m or more")
	}
}
