package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/placet-dev/placet/yamlfile"
)

var update = flag.Bool("update", false, "write generated files anew")

const minimal = "version: 1\nenvironment: test\nstore: sqlite:state.db\nregistry: tools.yaml\n"

func TestDefaults(t *testing.T) {
	c, err := Parse("placet.yaml", "/etc/placet", []byte(minimal+`issuers: [{issuer: "https://idp", algorithms: [RS256], tenant: acme}]`+"\nworkloads: {app: {key: file:app.hash, permissions: [propose]}}"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:8088" || c.PublicURL != "http://127.0.0.1:8088" || c.Audience() != "http://127.0.0.1:8088/mcp" || c.ConsoleAudience() != "http://127.0.0.1:8088/console" {
		t.Errorf("addresses %q %q", c.Listen, c.PublicURL)
	}
	if c.StorePath() != "/etc/placet/state.db" || c.Registry[0] != "/etc/placet/tools.yaml" {
		t.Errorf("paths %q %q", c.StorePath(), c.Registry)
	}
	if c.Policy.Timeout != 50*time.Millisecond || len(c.Policy.Layers) != 0 {
		t.Errorf("policy %+v", c.Policy)
	}
	if c.Runs.Idle != 30*time.Minute || c.Runs.TaintLasts != 24*time.Hour || c.Runs.CallsPerTurn != 40 || c.Runs.CallsPerRun != 400 || c.Runs.ProposalsOpen != 100 {
		t.Errorf("runs %+v", c.Runs)
	}
	if c.Calls.Expires != time.Hour || c.Approvals.Wait != 25*time.Second || c.Approvals.Default != nil || c.Telemetry.Log != "info" {
		t.Errorf("bounds %+v %+v", c.Calls, c.Approvals)
	}
	i := c.Issuers[0]
	if i.Audience[0] != c.Audience() || i.TokenTypes[0] != "at+jwt" || i.TokenTypes[1] != "JWT" || i.TenantClaim() != "" || i.Claims.Subject != "sub" ||
		strings.Join(i.Claims.Agent, " ") != "act.sub azp client_id" || strings.Join(i.Claims.Scopes, " ") != "scope scp" || i.Claims.Groups != "" || i.MaxTokenAge != 15*time.Minute || i.Skew != 30*time.Second || i.Client != nil {
		t.Errorf("issuer %+v", i)
	}
	read := ""
	_, err = c.Workloads[0].Value.Key.Read(nil, func(path string) ([]byte, error) { read = path; return []byte("x"), nil })
	if err != nil || read != "/etc/placet/app.hash" {
		t.Errorf("the key is read from %q: %v", read, err)
	}
}

// Each text is wrong in the way that its message says, and in no other.
func TestProblems(t *testing.T) {
	with := func(lines string) string { return minimal + lines }
	two := with("issuers: [{issuer: https://a, algorithms: [RS256], tenant: t}, {issuer: https://b, algorithms: [RS256], tenant: t}]") + "\n"
	issuer := func(keys string) string {
		return minimal + "issuers: [{issuer: https://idp, algorithms: [RS256], " + keys + "}]"
	}
	for _, c := range []struct{ name, src, want string }{
		{"nothing", "", "placet.yaml: needs the key version: Version of this file's format: 1.\n" +
			"placet.yaml: needs the key environment: Which environment this server is, such as production; tools may be limited to some.\n" +
			"placet.yaml: needs the key store: Where records are kept: sqlite:PATH; or PostgreSQL, by env:NAME or file:PATH that holds its connection string, or postgres://… without a password.\n" +
			"placet.yaml: needs the key registry: Files that name the tools, each with its lock beside it."},
		{"version", strings.Replace(minimal, "1", "2", 1), "placet.yaml:1:1: version: is not known to this program; it reads version 1"},
		{"plain HTTP elsewhere", with("listen: 0.0.0.0:80\npublic_url: https://a"), "placet.yaml:5:1: listen: is beyond this machine, where plain HTTP is refused; set tls: {certificate: …, key: …} or listen on 127.0.0.1"},
		{"plain HTTP on a name", with("listen: example.com:80"), "placet.yaml:5:1: listen: is beyond this machine, where plain HTTP is refused; set tls: {certificate: …, key: …} or listen on 127.0.0.1"},
		{"plain HTTP on every address", with("listen: :80\npublic_url: https://a"), "placet.yaml:5:1: listen: is beyond this machine, where plain HTTP is refused; set tls: {certificate: …, key: …} or listen on 127.0.0.1"},
		{"no port", with("listen: 127.0.0.1"), "placet.yaml:5:1: listen: wants address and port, such as 127.0.0.1:8088"},
		{"public URL", with("public_url: tools.example.com"), "placet.yaml:5:1: public_url: wants a URL such as https://tools.example.com"},
		{"public URL in the clear", with("public_url: http://tools.example.com"), "placet.yaml:5:1: public_url: must be https beyond this machine: tokens travel to it"},
		{"no public URL", with("listen: 0.0.0.0:443\ntls: {certificate: a, key: b}"), "placet.yaml:1: public_url: is needed, since listen names no address that clients could open"},
		{"half a TLS", with("tls: {certificate: a}"), "placet.yaml:5:1: tls: needs the key key: PEM file with the private key."},
		{"store", strings.Replace(minimal, "sqlite:state.db", "state.db", 1), "placet.yaml:3:1: store: wants sqlite:PATH, or env:NAME, file:PATH or postgres://… for PostgreSQL"},
		{"store with options", strings.Replace(minimal, "state.db", "state.db?mode=memory", 1), "placet.yaml:3:1: store: wants sqlite:PATH, a path without // at its start or a question mark"},
		{"postgres with a password", strings.Replace(minimal, "sqlite:state.db", "postgres://a:b@c/d", 1), "placet.yaml:3:1: store: holds a password; keep the connection string elsewhere and name it, env:NAME or file:PATH"},
		{"postgres by no reference", strings.Replace(minimal, "sqlite:state.db", "env:A-B", 1), "placet.yaml:3:1: store: wants env:NAME or file:PATH that holds a connection string of PostgreSQL"},
		{"keys beside SQLite", with("keys: keys"), "placet.yaml:5:1: keys: goes with PostgreSQL; beside a SQLite file its keys have their place"},
		{"no registry", strings.Replace(minimal, "tools.yaml", "[]", 1), "placet.yaml:4:1: registry: is empty; list something or remove the key"},
		{"policy timeout", with("policy: {timeout: 0s}"), "placet.yaml:5:10: policy.timeout: must be more than 0 and at most 10s"},
		{"layer twice", with("policy: {layers: [{name: a, files: b}, {name: a, files: c}]}"), `placet.yaml:5:1: policy: has two layers named "a"`},
		{"layer's name", with("policy: {layers: [{name: registry, files: b}]}"), "placet.yaml:5:20: policy.layers[0].name: is lower-case letters, digits and _ . -, starts with a letter, and is not registry"},
		{"layer's query", with("policy: {layers: [{name: a, files: b, query: allow}]}"), "placet.yaml:5:39: policy.layers[0].query: wants a rule, such as data.agent.call.decision"},
		{"layer's mode", with("policy: {layers: [{name: a, files: b, mode: off}]}"), "placet.yaml:5:39: policy.layers[0].mode: wants one of enforce, observe"},
		{"layer for", with("policy: {layers: [{name: a, files: b, for: {group: [x]}}]}"), "placet.yaml:5:45: policy.layers[0].for.group: is not a key here; did you mean groups?"},
		{"HS256", with("issuers: [{issuer: https://idp, algorithms: [HS256], tenant: a}]"), "placet.yaml:5:46: issuers[0].algorithms[0]: wants one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA; did you mean RS256?"},
		{"alg none", with("issuers: [{issuer: https://idp, algorithms: [none], tenant: a}]"), "placet.yaml:5:46: issuers[0].algorithms[0]: wants one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA"},
		{"no algorithms", with("issuers: [{issuer: https://idp, tenant: a}]"), "placet.yaml:5:11: issuers[0]: needs the key algorithms: Signature algorithms that are accepted."},
		{"issuer in the clear", with("issuers: [{issuer: http://idp, algorithms: [RS256], tenant: a}]"), "placet.yaml:5:12: issuers[0].issuer: must be https beyond this machine: its keys are fetched from there"},
		{"issuer twice", with("issuers: [{issuer: https://idp, algorithms: [RS256], tenant: a}, {issuer: https://idp, algorithms: [RS256], tenant: b}]"), "placet.yaml:5:1: issuers: lists https://idp twice"},
		{"claim without list", issuer("tenant: claims.t"), "placet.yaml:5:11: issuers[0].tenants: is needed with a claim: without the list, the issuer could name any tenant"},
		{"both tenants", issuer("tenant: a, tenants: [b]"), "placet.yaml:5:65: issuers[0].tenants: goes with tenant: claims.NAME; a constant tenant is the only one"},
		{"keys in the clear", issuer("tenant: a, keys: http://idp/jwks"), "placet.yaml:5:65: issuers[0].keys: must be https beyond this machine"},
		{"client without port", issuer("tenant: a, client: {id: x}"), "placet.yaml:5:65: issuers[0].client: needs the key callback_port: The port of its redirect URI on loopback, as registered at the provider."},
		{"client's port", issuer("tenant: a, client: {id: x, callback_port: 0}"), "placet.yaml:5:81: issuers[0].client.callback_port: wants a port, 1 to 65535"},
		{"two clients", with("issuers: [{issuer: https://a, algorithms: [RS256], tenant: a, client: {id: x, callback_port: 1}}, {issuer: https://b, algorithms: [RS256], tenant: a, client: {id: x, callback_port: 1}}]"), "placet.yaml:5:1: issuers: has two with client; whoever registers gets one client, so one issuer may have it"},
		{"token age", issuer("tenant: a, max_token_age: 0s"), "placet.yaml:5:65: issuers[0].max_token_age: must be between 1m and 24h"},
		{"skew", issuer("tenant: a, skew: 10m"), "placet.yaml:5:65: issuers[0].skew: must be between 1s and 5m"},
		{"resource", with("resource: mcp"), "placet.yaml:5:1: resource: wants a URL such as https://tools.example.com/mcp"},
		{"resource in the clear", with("resource: http://tools.example.com/mcp"), "placet.yaml:5:1: resource: must be https beyond this machine"},
		{"resource is the console", with("public_url: https://a\nresource: https://a/console"), "placet.yaml:6:1: resource: must not be public_url + /console: tokens for that may answer approvals"},
		{"credential's type", with("credentials: {a: {type: magic}}"), "placet.yaml:5:19: credentials.a.type: wants one of none, static, client_credentials, token_exchange, on_behalf_of"},
		{"credential itself", with("credentials: {a: {type: static, value: hunter2}}"), "placet.yaml:5:33: credentials.a.value: wants a reference to a secret, env:NAME or file:PATH, never the secret itself"},
		{"static without value", with("credentials: {a: {type: static}}"), "placet.yaml:5:15: credentials.a.value: is needed: a reference to the secret, env:NAME or file:PATH"},
		{"header and variable", with("credentials: {a: {type: static, value: env:A, header: X-Key, variable: KEY}}"), "placet.yaml:5:62: credentials.a.variable: goes with commands and header with URLs; make a profile for each"},
		{"header of our own", with("credentials: {a: {type: static, value: env:A, header: Mcp-Session-Id}}"), "placet.yaml:5:47: credentials.a.header: is not the name of a header that a credential may have"},
		{"variable that loads code", with("credentials: {a: {type: static, value: env:A, variable: LD_PRELOAD}}"), "placet.yaml:5:47: credentials.a.variable: is not the name of a variable that a credential may have"},
		{"key of another type", with("credentials: {a: {type: none, value: env:A}}"), "placet.yaml:5:31: credentials.a.value: does not go with type none"},
		{"exchange without issuer", with("credentials: {a: {type: token_exchange, token_url: https://idp/token, client_id: p, client_secret: env:A}}"), "placet.yaml:5:15: credentials.a.issuer: is needed: it says whose tokens are exchanged"},
		{"secret in the clear", with("credentials: {a: {type: client_credentials, token_url: http://idp/token, client_id: p, client_secret: env:A}}"), "placet.yaml:5:45: credentials.a.token_url: must be https beyond this machine: secrets travel to it"},
		{"no client", with("credentials: {a: {type: client_credentials, issuer: https://idp}}"), "placet.yaml:5:15: credentials.a.client_id: is needed: this server's name at the issuer\nplacet.yaml:5:15: credentials.a.client_secret: or private_key is needed, exactly one of the two"},
		{"secret and key", with("credentials: {a: {type: client_credentials, issuer: https://idp, client_id: p, client_secret: env:A, private_key: env:B}}"), "placet.yaml:5:80: credentials.a.client_secret: or private_key is needed, exactly one of the two"},
		{"scopes in one text", with("credentials: {a: {type: client_credentials, issuer: https://idp, client_id: p, client_secret: env:A, scope: a b}}"), "placet.yaml:5:102: credentials.a.scope: wants a list with one scope in each place"},
		{"on behalf without scope", with("credentials: {a: {type: on_behalf_of, issuer: https://idp, client_id: p, client_secret: env:A}}"), "placet.yaml:5:15: credentials.a.scope: is needed, such as api://…/.default"},
		{"listing of nothing", with("credentials: {a: {type: token_exchange, issuer: https://idp, client_id: p, client_secret: env:A, listing: b}}"), `placet.yaml:5:1: credentials: placet.yaml:5: listing of a names no profile: "b"`},
		{"listing for callers", with("credentials: {a: {type: token_exchange, issuer: https://idp, client_id: p, client_secret: env:A, listing: a}}"), "placet.yaml:5:1: credentials: placet.yaml:5: listing of a names a profile that cannot serve for it; use one of type static or client_credentials"},
		{"exchange of nobody's tokens", issuer("tenant: a") + "\ncredentials: {a: {type: token_exchange, issuer: https://other, client_id: p, client_secret: env:A}}", "placet.yaml:6:1: credentials: placet.yaml:6: a exchanges tokens of an issuer that is not among issuers, so nobody has one"},
		{"delegation without client", issuer("tenant: a, delegation: {max: 1h}"), "placet.yaml:5:65: issuers[0].delegation.client_id: is needed: this server's name at the issuer\nplacet.yaml:5:65: issuers[0].delegation.client_secret: or private_key is needed, exactly one of the two"},
		{"long delegation", issuer("tenant: a, delegation: {client_id: p, client_secret: env:A, max: 8760h}"), "placet.yaml:5:114: issuers[0].delegation.max: must be at least 1m and at most 720h"},
		{"workload's key itself", with("workloads: {a: {key: plk_abc, permissions: [vouch]}}"), "placet.yaml:5:17: workloads.a.key: wants a reference to a secret, env:NAME or file:PATH, never the secret itself"},
		{"workload's permission", with("workloads: {a: {key: env:A, permissions: [approve]}}"), "placet.yaml:5:43: workloads.a.permissions[0]: wants one of propose, vouch, read, operate, operate_all"},
		{"workload's permission twice", with("workloads: {a: {key: env:A, permissions: [read, read]}}"), "placet.yaml:5:29: workloads.a.permissions: lists read twice"},
		{"workload's name", with("workloads: {A b: {key: env:A, permissions: [read]}}"), "placet.yaml:5:1: workloads: a name is lower-case letters, digits and _ . -, and starts with a letter"},
		{"workload's end", with("workloads: {a: {key: env:A, permissions: [read], expires: 2027-01-31}}"), "placet.yaml:5:50: workloads.a.expires: wants a time such as 2027-01-31T12:00:00Z"},
		{"workload with nothing", with("workloads: {a: {permissions: [read]}}"), "placet.yaml:5:17: workloads.a.permissions: are for nobody: the workload needs key, spiffe or certificate"},
		{"SPIFFE ID of nobody", with("workloads: {a: {spiffe: spiffe://example.org/a, permissions: [read]}}"), "placet.yaml:5:1: workloads: a has a SPIFFE ID of a trust domain that is not under trust"},
		{"certificate of nobody", with("workloads: {a: {certificate: {authority: b, dns: c}, permissions: [read]}}"), "placet.yaml:5:1: workloads: a has a certificate of b, which is no plain authority (ca) under trust"},
		{"certificate without a name", with("workloads: {a: {certificate: {authority: b}, permissions: [read]}}"), "placet.yaml:5:31: workloads.a.certificate.authority: wants either dns or uri beside it"},
		{"trust without TLS", with("trust: {a: {ca: b}}"), "placet.yaml:5:1: trust: needs tls: {certificate: …, key: …}; clients show certificates over TLS only"},
		{"trust in nobody", with("tls: {certificate: a, key: b}\ntrust: {a: {bundle: b}}"), "placet.yaml:6:9: trust.a: wants either ca or spiffe"},
		{"trust domain without roots", with("tls: {certificate: a, key: b}\ntrust: {a: {spiffe: example.org}}"), "placet.yaml:6:13: trust.a.spiffe: wants either bundle or workload_api beside it"},
		{"console with bound tokens", issuer("tenant: a, sender_constrained: dpop") + "\nconsole: {issuer: https://idp, client_id: c}", "placet.yaml:6:1: console: signs in at an issuer whose tokens must be bound (sender_constrained): a browser's sign-in has nothing to bind them to, so nobody could sign in; let people sign in at an issuer of their own, or set sender_constrained: none, under which bound tokens are still checked"},
		{"mtls without TLS", issuer("tenant: a, sender_constrained: mtls"), "placet.yaml:5:1: issuers: sender_constrained: mtls needs tls: {certificate: …, key: …}; clients show certificates over TLS only"},
		{"permission for a person", with("permissions: {operate: [anna]}"), "placet.yaml:5:15: permissions.operate: wants group:NAME or group:NAME@ISSUER"},
		{"no calls", with("runs: {calls_per_turn: 0}"), "placet.yaml:5:8: runs.calls_per_turn: must be 1 or more"},
		{"long wait", with("approvals: {wait: 2m}"), "placet.yaml:5:13: approvals.wait: must be at most 55s: many clients give up at 60s and would never hear that a person is asked"},
		{"quorum 0", with(`approvals: {default: {approvers: ["group:a"], quorum: 0}}`), "placet.yaml:5:47: approvals.default.quorum: must be 1 or more, and no more than the persons there are"},
		{"quorum of one", with(`approvals: {default: {approvers: ["principal:a@b"], quorum: 2}}`), "placet.yaml:5:53: approvals.default.quorum: must be 1 or more, and no more than the persons there are"},
		{"approver", with(`approvals: {default: {approvers: [support]}}`), "placet.yaml:5:23: approvals.default.approvers: wants group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER"},
		{"receiver without address", with(`approvals: {notify: [{for: "group:a"}]}`), "placet.yaml:5:22: approvals.notify[0]: wants either slack or webhook"},
		{"receiver with two addresses", with(`approvals: {notify: [{for: "group:a", slack: env:A, webhook: https://a, secret: env:B}]}`), "placet.yaml:5:22: approvals.notify[0]: wants either slack or webhook"},
		{"receiver's address itself", with(`approvals: {notify: [{for: "group:a", slack: https://hooks.slack.com/x}]}`), "placet.yaml:5:39: approvals.notify[0].slack: wants a reference to a secret, env:NAME or file:PATH, never the secret itself"},
		{"webhook without secret", with(`approvals: {notify: [{for: "group:a", webhook: https://a}]}`), "placet.yaml:5:39: approvals.notify[0].webhook: goes with secret, which signs what is sent"},
		{"webhook in the clear", with(`approvals: {notify: [{for: "group:a", webhook: http://a, secret: env:B}]}`), "placet.yaml:5:39: approvals.notify[0].webhook: must be https beyond this machine"},
		{"receiver for nobody", with(`approvals: {notify: [{for: principal, slack: env:A}]}`), "placet.yaml:5:23: approvals.notify[0].for: wants group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER"},
		{"reminders all the time", with(`approvals: {notify: [{for: "group:a", slack: env:A, remind: 10s}]}`), "placet.yaml:5:53: approvals.notify[0].remind: wants a time of 1m or more such as 30m, or a share of the question's life such as 50%"},
		{"reminder after the end", with(`approvals: {notify: [{for: "group:a", slack: env:A, remind: 100%}]}`), "placet.yaml:5:53: approvals.notify[0].remind: wants a share from 5% to 95%"},
		{"two receivers of one name", with(`approvals: {notify: [{for: "group:a", slack: env:A}, {for: "group:a", slack: env:B}]}`), `placet.yaml:5:1: approvals: has two receivers named "slack group:a"; give each a name of its own`},
		{"alert rule", with(`alerts: {off: [refusal]}`), "placet.yaml:5:16: alerts.off[0]: wants one of approved_never_run, no_approver, unreachable, unknown_waiting, refusals, tried_again, followed_by_calls, sensitive_then_sink; did you mean refusals?"},
		{"alert window", with(`alerts: {window: 1s}`), "placet.yaml:5:10: alerts.window: must be at least 1m and at most 24h"},
		{"no threshold", with(`alerts: {refusals: 0}`), "placet.yaml:5:10: alerts.refusals: must be at least 1 and at most 1000"},
		{"decision point in the clear", with("decision_points: [{name: a, url: http://pdp}]"), "placet.yaml:5:29: decision_points[0].url: must be https beyond this machine: whoever answers there decides"},
		{"decision point's URL", with("decision_points: [{name: a, url: https://u:p@pdp}]"), "placet.yaml:5:29: decision_points[0].url: wants a URL such as https://pdp.example.com"},
		{"decision point without URL", with("decision_points: [{name: a}]"), "placet.yaml:5:19: decision_points[0]: needs the key url: Its URL; questions go to /access/v1/evaluation and /access/v1/evaluations there."},
		{"decision point's name", with("decision_points: [{name: A, url: https://pdp}]"), "placet.yaml:5:20: decision_points[0].name: is lower-case letters, digits and _ . -, and starts with a letter"},
		{"decision point twice", with("decision_points: [{name: a, url: https://pdp}, {name: a, url: https://pdp}]"), `placet.yaml:5:1: decision_points: has two named "a"`},
		{"decision point's timeout", with("decision_points: [{name: a, url: https://pdp, timeout: 6s}]"), "placet.yaml:5:47: decision_points[0].timeout: must be more than 0 and at most 5s"},
		{"decision point's semantic", with("decision_points: [{name: a, url: https://pdp, semantic: permit_on_first_permit}]"), "placet.yaml:5:47: decision_points[0].semantic: wants one of execute_all, deny_on_first_deny"},
		{"decision point's token itself", with("decision_points: [{name: a, url: https://pdp, token: abc}]"), "placet.yaml:5:47: decision_points[0].token: wants a reference to a secret, env:NAME or file:PATH, never the secret itself"},
		{"one subject for all", with("decision_points: [{name: a, url: https://pdp, subject: {id: someone}}]"), "placet.yaml:5:57: decision_points[0].subject.id: wants {subject}, without which all principals would be one, such as {subject}@{issuer}"},
		{"unknown part of a subject", with(`decision_points: [{name: a, url: https://pdp, subject: {id: "{subject}@{email}"}}]`), "placet.yaml:5:57: decision_points[0].subject.id: knows {subject}, {issuer} and {tenant}, not {email}"},
		{"subjects of two issuers", with("issuers: [{issuer: https://a, algorithms: [RS256], tenant: t}, {issuer: https://b, algorithms: [RS256], tenant: t}]\ndecision_points: [{name: p, url: https://pdp, subject: {id: \"{subject}\"}}]"),
			`placet.yaml:6:1: decision_points: "p" gets subjects without {issuer}, and there are several issuers: equal subjects of two would be one`},
		{"person with one login", two + "identities: [{person: a, logins: [\"a@https://a\"]}]", "placet.yaml:6:26: identities[0].logins: wants two or more, such as lena@https://login.example.com, and no same"},
		{"person without name", two + "identities: [{logins: [\"a@https://a\", \"b@https://b\"]}]", "placet.yaml:6:14: identities[0].person: wants either a person with logins, or issuers with same"},
		{"issuers without same", two + "identities: [{issuers: [https://a, https://b]}]", "placet.yaml:6:15: identities[0].issuers: wants two or more, with same: subject or same: nobody, and no logins"},
		{"same by mail", two + "identities: [{issuers: [https://a, https://b], same: email}]", "placet.yaml:6:48: identities[0].same: wants one of subject, nobody"},
		{"login of nobody", two + "identities: [{person: a, logins: [\"a@https://a\", \"@https://b\"]}]", "placet.yaml:6:1: identities: names @https://b; a login is SUBJECT@ISSUER, of one of the issuers"},
		{"person twice", two + "identities: [{person: a, logins: [\"a@https://a\", \"a@https://b\"]}, {person: a, logins: [\"c@https://a\", \"c@https://b\"]}]", "placet.yaml:6:1: identities: states a twice; write all logins of a person into one entry"},
		{"issuer that is none", two + "identities: [{issuers: [https://a, https://c], same: subject}]", "placet.yaml:6:1: identities: names https://c, which is not one of the issuers"},
		{"provider in the clear", with("providers: {a: {api: openai, url: http://llm/v1, key: env:K}}"), "placet.yaml:5:30: providers.a.url: must be https beyond this machine: secrets travel to it"},
		{"provider's key itself", with("providers: {a: {api: openai, url: https://llm/v1, key: sk-abc}}"), "placet.yaml:5:51: providers.a.key: wants a reference to a secret, env:NAME or file:PATH, never the secret itself"},
		{"provider without a key", with("providers: {a: {api: openai, url: https://llm/v1}}"), "placet.yaml:5:13: providers.a.key: is needed beyond this machine: a reference, env:NAME or file:PATH"},
		{"provider's key in its URL", with("providers: {a: {api: gemini, url: https://llm?key=a, key: env:K}}"), "placet.yaml:5:30: providers.a.url: wants a URL without a query; a key goes into key"},
		{"provider's protocol", with("providers: {a: {api: cohere, url: https://llm, key: env:K}}"), "placet.yaml:5:17: providers.a.api: wants one of openai, anthropic, gemini"},
		{"provider that is this server", with("providers: {a: {api: openai, url: http://127.0.0.1:8088/v1}}"), "placet.yaml:5:1: providers: placet.yaml:5: a is this server itself"},
		{"provider's timeout", with("providers: {a: {api: openai, url: http://localhost/v1, timeout: 2h}}"), "placet.yaml:5:56: providers.a.timeout: must be between 1s and 1h"},
		{"log", with("telemetry: {log: verbose}"), "placet.yaml:5:13: telemetry.log: wants one of debug, info, warn, error"},
		{"metrics nowhere", with("telemetry: {metrics: \"9464\"}"), "placet.yaml:5:13: telemetry.metrics: wants address and port, such as 127.0.0.1:9464"},
		{"metrics where calls come", with("listen: 127.0.0.1:8088\ntelemetry: {metrics: 127.0.0.1:8088}"), "placet.yaml:6:1: telemetry: metrics must not be at the address that calls come to"},
		{"port", with("port: 80"), "placet.yaml:5:1: port: is not a key here; did you mean listen: ADDRESS:PORT?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("/etc/placet.yaml", "/etc", []byte(c.src))
			if err == nil {
				t.Fatal("was accepted")
			}
			if got := err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Every key of the target shape is read, or refused as not supported yet.
func TestEveryKnownKeyIsReadOrRefused(t *testing.T) {
	for _, path := range []string{
		"trusted_proxies", "delegation", "retention",
		"schedules", "sandbox", "egress", "same_user",
	} {
		src := minimal + path + ": [a]"
		_, err := Parse("placet.yaml", "/", []byte(src))
		if err == nil || !strings.Contains(err.Error(), path+": is not supported yet") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The starter files load as they are, and so does each of their commented
// examples once it is uncommented.
func TestStarterFilesLoad(t *testing.T) {
	files, err := Sample()
	if err != nil || len(files) != 2 {
		t.Fatal(err)
	}
	if _, err := Parse("placet.yaml", "/", files["placet.yaml"]); err != nil {
		t.Error(err)
	}
	uncommented := regexp.MustCompile(`(?m)^(\s*)# (\s*(- |[a-z_-]+:))`).ReplaceAll(files["placet.yaml"], []byte("$1$2"))
	uncommented = bytes.Replace(uncommented, []byte("placet.yaml: how"), []byte("# placet.yaml: how"), 1)
	uncommented = bytes.Replace(uncommented, []byte("layers: [] "), []byte("layers: "), 1)
	if c, err := Parse("placet.yaml", "/", uncommented); err != nil || len(c.Issuers) != 1 || len(c.Policy.Layers) != 1 || c.Approvals.Default == nil {
		t.Errorf("%v\n%s", err, uncommented)
	}
}

func TestDocumentedSampleLoads(t *testing.T) {
	const path = "../docs/sample/placet.yaml"
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs("../docs/sample")
	if err != nil {
		t.Fatal(err)
	}
	if c.Registry[0] != filepath.Join(folder, "tools.yaml") || c.TLS.Key != filepath.Join(folder, "tls/server-key.pem") || c.Policy.Layers[1].Files[0] != filepath.Join(folder, "policy/support") ||
		c.Issuers[1].Keys != filepath.Join(folder, "support-app.jwks.json") || c.StorePath() != "/var/lib/placet/state.db" || c.Folder() != folder || c.File() != path {
		t.Errorf("paths: %+v", c)
	}
	if c.Issuers[1].TenantClaim() != "tenant" {
		t.Errorf("tenant claim %q", c.Issuers[1].TenantClaim())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []any{Config{}, TLS{}, Policy{}, Layer{}, For{}, DecisionPoint{}, PointSubject{}, Issuer{}, Client{}, Claims{}, Workload{}, Certificate{}, Authority{}, Credential{}, Delegation{}, Identity{}, Permissions{}, Runs{}, Calls{}, Approvals{}, Approvers{}, Telemetry{}, Receiver{}, Alerts{}, Provider{}} {
		for _, key := range yamlfile.Keys(root) {
			if !regexp.MustCompile(`(?m)[\s{,]` + key + `:|^` + key + `:`).Match(text) {
				t.Errorf("the sample does not show the key %s of %T", key, root)
			}
		}
	}
}

func TestLoadNamesAMissingFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "placet.yaml")); err == nil || !strings.Contains(err.Error(), "read the configuration") {
		t.Errorf("got %v", err)
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	want, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("placet.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("placet.schema.json")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("placet.schema.json is not current (%v); run: go test ./config -update", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, path := range []string{"../docs/sample/placet.yaml", "sample/placet.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(minimal))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := Parse("placet.yaml", "/etc", src)
		if err != nil {
			return
		}
		if c.TLS == nil && !strings.HasPrefix(c.Listen, "127.") && !strings.HasPrefix(c.Listen, "localhost:") && !strings.HasPrefix(c.Listen, "[::1]") && !strings.HasPrefix(c.Listen, "[::ffff:") && !strings.HasPrefix(c.Listen, "[0:") {
			t.Errorf("plain HTTP on %q was accepted", c.Listen)
		}
		for _, i := range c.Issuers {
			if len(i.Algorithms) == 0 || len(i.Audience) == 0 || (i.TenantClaim() == "") != (len(i.Tenants) == 0) {
				t.Errorf("accepted the issuer %+v", i)
			}
		}
	})
}

func TestKeysAreDocumented(t *testing.T) {
	const path = "../docs/sample/placet-keys.md"
	want := yamlfile.Markdown("Keys of placet.yaml", Config{})
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not current (%v); run: go test ./config -update", path, err)
	}
}

func TestStoreOnPostgreSQL(t *testing.T) {
	getenv := func(name string) (string, bool) { return "postgres://from-" + name, name == "PLACET_STORE" }
	readFile := func(path string) ([]byte, error) { return []byte("postgres://in" + path + "\n"), nil }
	for store, want := range map[string]string{"env:PLACET_STORE": "postgres://from-PLACET_STORE", "file:store.dsn": "postgres://in/etc/placet/store.dsn",
		"postgres://placet@db/records": "postgres://placet@db/records"} {
		for keys, path := range map[string]string{"": "/etc/placet/placet", "keys: /var/lib/placet\n": "/var/lib/placet/placet"} {
			c, err := Parse("placet.yaml", "/etc/placet", []byte(strings.Replace(minimal, "sqlite:state.db", store, 1)+keys))
			if err != nil {
				t.Fatal(err)
			}
			dsn, is, err := c.Database(getenv, readFile)
			if dsn != want || !is || err != nil || c.StorePath() != path {
				t.Errorf("%s: %q %v %v, keys at %s", store, dsn, is, err, c.StorePath())
			}
		}
	}
	c, err := Parse("placet.yaml", "/etc/placet", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if _, is, err := c.Database(getenv, readFile); is || err != nil {
		t.Errorf("SQLite is PostgreSQL: %v", err)
	}
}
