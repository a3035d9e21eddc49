package config

import (
	"errors"
	"slices"
	"time"

	"github.com/placet-dev/placet/yamlfile"
)

// Config is the shape of placet.yaml. The comments of the fields are in their
// doc tags, which also make the JSON Schema.
type Config struct {
	Version     int              `yaml:"version,required" doc:"Version of this file's format: 1."`
	Environment string           `yaml:"environment,required" doc:"Which environment this server is, such as production; tools may be limited to some."`
	Listen      string           `yaml:"listen" default:"127.0.0.1:8088" doc:"Address and port to listen on. Plain HTTP on loopback only; elsewhere set tls."`
	TLS         *TLS             `yaml:"tls" doc:"Certificate and key of this server."`
	PublicURL   string           `yaml:"public_url" doc:"What clients and approvers open. Default: listen, as a URL. Audience and links depend on it."`
	Resource    string           `yaml:"resource" doc:"What this server is called as an OAuth resource (RFC 9728), at every door. Default: public_url + /mcp. Default audience of every issuer."`
	Store       string           `yaml:"store,required" doc:"Where records are kept: sqlite:PATH; or PostgreSQL, by env:NAME or file:PATH that holds its connection string, or postgres://… without a password."`
	Keys        string           `yaml:"keys" doc:"Folder for the keys that this server makes: of dispatch tokens, passkeys and delegations. Default: where the SQLite file is, or else where this file is. Where secret is set, a file that is there counts before what follows from it."`
	Registry    yamlfile.Strings `yaml:"registry,required" doc:"Files that name the tools, each with its lock beside it."`
	Policy      Policy           `yaml:"policy" doc:"Layers that judge calls."`
	Points      []DecisionPoint  `yaml:"decision_points" doc:"Decision points outside of this server that are asked about what calls name (AuthZEN)."`
	Issuers     []Issuer         `yaml:"issuers" doc:"Who may say who is calling."`
	Trust       Trust            `yaml:"trust" doc:"Who certifies programs, by name. Needs tls; the server then asks clients for certificates."`
	Workloads   Workloads        `yaml:"workloads" doc:"Credentials of programs, apart from their users', by name."`
	Credentials Credentials      `yaml:"credentials" doc:"Profiles: what tool servers are called with, by name. Agents never see these."`
	Providers   Providers        `yaml:"providers" doc:"Model providers that requests are passed on to at /llm/NAME, by name."`
	Identities  []Identity       `yaml:"identities" doc:"Who is one person with logins at several issuers. Without it, people of two issuers cannot answer one question together, nor those of one for who calls from another."`
	Permissions Permissions      `yaml:"permissions" doc:"Which groups may do what, apart from calling tools."`
	Runs        Runs             `yaml:"runs" doc:"Bounds of runs."`
	Calls       Calls            `yaml:"calls" doc:"Bounds of calls."`
	Money       Budgets          `yaml:"money" doc:"Bounds of what is spent."`
	Agents      Agents           `yaml:"agents" doc:"What agents are held to, by name, beside what their callers may do."`
	Quota       Quota            `yaml:"quota" doc:"How many events a tenant's calls may write."`
	Ingress     Ingress          `yaml:"ingress" doc:"How many requests one credential may send, counted before anything is decided."`
	History     History          `yaml:"history" doc:"Bounds of the transcripts that are checked, repaired and imported."`
	Approvals   Approvals        `yaml:"approvals" doc:"How people are asked."`
	Console     *Console         `yaml:"console" doc:"Where approvers and operators sign in to the console. Without it, its links say how to answer in a terminal."`
	Telemetry   Telemetry        `yaml:"telemetry" doc:"What this server says about itself."`
	Alerts      Alerts           `yaml:"alerts" doc:"What is an alert for operators, and who is told."`
	Checkpoint  Checkpoint       `yaml:"checkpoint" doc:"How the event log is sealed, and where that is kept outside of the store."`

	Stop   Stop               `yaml:"stop" doc:"How this server stops (SIGTERM)."`
	Secret yamlfile.SecretRef `yaml:"secret" doc:"Secret that the servers of one PostgreSQL store share, 32 characters or more, made by a machine. Their keys follow from it; without it each has files of its own, and one server runs alone."`

	TrustedProxies yamlfile.Later `yaml:"trusted_proxies" doc:"Networks that may state a client's address."`
	Delegation     yamlfile.Later `yaml:"delegation" doc:"Authority while the caller is away."`
	Retention      yamlfile.Later `yaml:"retention" doc:"How long records are kept."`
	Schedules      yamlfile.Later `yaml:"schedules" doc:"Calls at set times."`
	Sandbox        yamlfile.Later `yaml:"sandbox" doc:"How commands are confined."`
	Egress         yamlfile.Later `yaml:"egress" doc:"Where this server may connect to."`
	SameUser       yamlfile.Later `yaml:"same_user" doc:"Commands may run as this server's user."`

	file, folder string
	storePath    string
}

// Hints names what people write for a key.
func (*Config) Hints() map[string]string {
	return map[string]string{
		"database": "store: sqlite:PATH, or env:NAME for PostgreSQL", "port": "listen: ADDRESS:PORT", "address": "listen: ADDRESS:PORT",
		"tools": "registry: [tools.yaml]", "env": "environment", "url": "public_url", "log": "telemetry: {log: …}",
		"layers": "policy: {layers: […]}", "pdp": "decision_points", "authzen": "decision_points", "certificate": "tls: {certificate: …, key: …}",
	}
}

// File is the path that was loaded.
func (c *Config) File() string { return c.file }

// Folder is what relative paths of the file mean.
func (c *Config) Folder() string { return c.folder }

// StorePath is the path of the SQLite file, and what the names of files beside it
// begin with; with PostgreSQL, of those alone.
func (c *Config) StorePath() string { return c.storePath }

// AsksForCertificates reports whether the listener asks clients for certificates.
func (c *Config) AsksForCertificates() bool {
	return len(c.Trust) > 0 || slices.ContainsFunc(c.Issuers, func(i Issuer) bool { return c.TLS != nil && i.Sender == "any" || i.Sender == "mtls" })
}

// Audience is what tokens for calling tools are for, where an issuer says
// nothing else.
func (c *Config) Audience() string {
	if c.Resource != "" {
		return c.Resource
	}
	return c.PublicURL + "/mcp"
}

// ConsoleAudience is what tokens for answering approvals are for (rule D4).
func (c *Config) ConsoleAudience() string { return c.PublicURL + "/console" }

// TLS is a certificate with its key.
type TLS struct {
	Certificate string `yaml:"certificate,required" doc:"PEM file with the certificate chain."`
	Key         string `yaml:"key,required" doc:"PEM file with the private key."`
}

// Stop is what happens between SIGTERM and the end.
type Stop struct {
	Announce time.Duration `yaml:"announce" default:"0s" doc:"How long /readyz says no before new requests are refused: as long as a load balancer takes to notice."`
	Finish   time.Duration `yaml:"finish" default:"10s" doc:"How long requests under way may take after that."`
}

// Policy is the layers. No layers means that the registry alone decides.
type Policy struct {
	Timeout time.Duration `yaml:"timeout" default:"50ms" doc:"How long each layer may take; slower, broken or silent denies."`
	Layers  []Layer       `yaml:"layers" doc:"Every layer whose for fits is asked; the most restrictive verdict wins."`
	Sent    Sent          `yaml:"sent" doc:"accepted: operators may activate registry and policy files that they send, and so say what this server runs and reaches."`
}

// Sent is whether operators may activate files that they send.
type Sent string

// Choices are its values.
func (Sent) Choices() []string { return []string{"accepted"} }

// Layer is one policy.
type Layer struct {
	Name  string           `yaml:"name,required" doc:"Name of the layer, in events and approvals."`
	Files yamlfile.Strings `yaml:"files,required" doc:"Rego files, or folders of them."`
	For   For              `yaml:"for" doc:"Calls that it is asked about; without it, all."`
	Mode  Mode             `yaml:"mode" default:"enforce" doc:"observe: its verdict is recorded, not applied."`
	Query string           `yaml:"query" default:"data.agent.call.decision" doc:"The rule that gives the decision."`
}

// For names calls, from the registry and the verified identity only.
type For struct {
	Tenants []string `yaml:"tenants" doc:"Tenants."`
	Groups  []string `yaml:"groups" doc:"Groups, as name or name@issuer; one is enough."`
	Agents  []string `yaml:"agents" doc:"Agents."`
	Servers []string `yaml:"servers" doc:"Servers of the registry."`
	Tools   []string `yaml:"tools" doc:"Tools of the registry."`
}

// DecisionPoint is asked, by the OpenID Authorization API 1.0 (AuthZEN), whether
// a caller may use what a call names.
type DecisionPoint struct {
	Name     string             `yaml:"name,required" doc:"Name of the decision point, in events."`
	URL      string             `yaml:"url,required" doc:"Its URL; questions go to /access/v1/evaluation and /access/v1/evaluations there."`
	Discover bool               `yaml:"discover" doc:"Read where questions go from its metadata, which must name url, and only url's host."`
	Timeout  time.Duration      `yaml:"timeout" default:"200ms" doc:"How long a question may take; slower, broken or silent denies."`
	Batch    bool               `yaml:"batch" default:"true" doc:"Ask about several things in one request; false: one request for each."`
	Semantic Semantic           `yaml:"semantic" default:"execute_all" doc:"How it goes through several things."`
	Token    yamlfile.SecretRef `yaml:"token" doc:"Reference to the bearer credential that it wants: env:NAME or file:PATH."`
	For      For                `yaml:"for" doc:"Calls that it is asked about; without it, all."`
	Mode     Mode               `yaml:"mode" default:"enforce" doc:"observe: its answer is recorded, not applied."`
	Subject  PointSubject       `yaml:"subject" doc:"How it knows principals."`

	SendArguments bool `yaml:"send_arguments" doc:"Give it the call's arguments."`
	ShowReasons   bool `yaml:"show_reasons" doc:"Let the model read what it gives as the user's reason."`
}

// PointSubject is how a decision point knows principals.
type PointSubject struct {
	Type string `yaml:"type" default:"identity" doc:"The subject's type, such as identity or user."`
	ID   string `yaml:"id" default:"{subject}@{issuer}" doc:"The subject's ID, of {subject}, {issuer} and {tenant}."`
}

// Semantic is how a decision point goes through several things.
type Semantic string

func (Semantic) Choices() []string { return []string{"execute_all", "deny_on_first_deny"} }

// Mode says whether the verdict of a layer or decision point is applied.
type Mode string

const (
	Enforce Mode = "enforce"
	Observe Mode = "observe"
)

func (Mode) Choices() []string { return []string{string(Enforce), string(Observe)} }

// Issuer is one who may say who is calling.
type Issuer struct {
	Issuer     string           `yaml:"issuer,required" doc:"The issuer's URL, exactly as its tokens give it."`
	Audience   yamlfile.Strings `yaml:"audience" doc:"Audiences that its tokens may name. Default: public_url + /mcp."`
	Algorithms []Algorithm      `yaml:"algorithms,required" doc:"Signature algorithms that are accepted."`
	TokenTypes []string         `yaml:"token_types" default:"at+jwt,JWT" doc:"Values of the token's typ header that are accepted; none: the header has no typ."`
	Tenant     string           `yaml:"tenant,required" doc:"The one tenant it speaks for, or claims.NAME with tenants."`
	Tenants    []string         `yaml:"tenants" doc:"Tenants that the claim may name."`
	Claims     Claims           `yaml:"claims" doc:"Which claims say what."`
	Sender     Constraint       `yaml:"sender_constrained" default:"none" doc:"What its tokens must be bound to: a client certificate (mtls), a key (dpop), or any of both. Bound tokens are checked in any case."`
	Keys       string           `yaml:"keys" doc:"JWKS file, or its URL. Default: discovery at the issuer."`
	Delegation *Delegation      `yaml:"delegation" doc:"Lets runs keep the authority of a caller who is away, as long as this issuer confirms it."`

	MaxTokenAge time.Duration `yaml:"max_token_age" default:"15m" doc:"A token counts at most this long after it was issued (iat), whatever its exp. So long may a lost membership go unnoticed."`
	Skew        time.Duration `yaml:"skew" default:"30s" doc:"How far the issuer's clock may be ahead, for nbf and iat. exp has no tolerance."`
	Client      *Client       `yaml:"client" doc:"The public client that MCP clients are told to use, where the provider does not register clients itself. One issuer may have it."`
}

// Constraint says what tokens must be bound to.
type Constraint string

func (Constraint) Choices() []string { return []string{"none", "mtls", "dpop", "any"} }

// TenantClaim returns the claim that names the tenant, or "" when the tenant is
// a constant.
func (i Issuer) TenantClaim() string {
	if claim, ok := cutClaim(i.Tenant); ok {
		return claim
	}
	return ""
}

// Client is a public client (without a secret) that the operator registered at
// the provider, for every program that connects here.
type Client struct {
	ID           string   `yaml:"id,required" doc:"Its client_id at the provider."`
	CallbackPort int      `yaml:"callback_port,required" doc:"The port of its redirect URI on loopback, as registered at the provider."`
	Scopes       []string `yaml:"scopes" doc:"What clients are told to ask for, where the provider spells scopes otherwise than its tokens do. Default: the scopes of the tools."`
}

// Claims maps claims to what they say. A dot goes into a claim that is an object.
type Claims struct {
	Subject string           `yaml:"subject" default:"sub" doc:"Who the principal is."`
	Agent   yamlfile.Strings `yaml:"agent" default:"act.sub,azp,client_id" doc:"Who the agent is; the first claim that is there."`
	Scopes  yamlfile.Strings `yaml:"scopes" default:"scope,scp" doc:"The scopes; the first claim that is there."`
	Groups  string           `yaml:"groups" doc:"The groups; without it, this issuer's people are in none."`
}

// Algorithm is a signature algorithm. Symmetric ones are not offered: whoever
// verifies with one could sign.
type Algorithm string

func (Algorithm) Choices() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// Workloads are programs with credentials of their own.
type Workloads = yamlfile.Entries[Workload]

// Workload is one program.
type Workload struct {
	Key         yamlfile.SecretRef `yaml:"key" doc:"Reference to the hashes of its keys, as placet keys writes them: env:NAME or file:PATH."`
	SPIFFE      string             `yaml:"spiffe" doc:"Its SPIFFE ID, exactly; the trust domain must be one under trust."`
	Certificate *Certificate       `yaml:"certificate" doc:"What its certificate of a plain authority states. Each workload has keys, a certificate or both."`
	Agent       string             `yaml:"agent" doc:"The agent that it is: a token beside its credential must name the same."`
	Tenant      string             `yaml:"tenant" doc:"Its tenant. Default: the one there is; needed where there are several."`
	Permissions []Permission       `yaml:"permissions,required" doc:"What it may do: propose, vouch, read, operate, operate_all."`
	Expires     Time               `yaml:"expires" doc:"When it ends, whatever keys and certificates it holds then: a time such as 2027-01-31T12:00:00Z."`
}

// Certificate is what a certificate of a plain authority must hold.
type Certificate struct {
	Authority string `yaml:"authority,required" doc:"The authority's name under trust."`
	DNS       string `yaml:"dns" doc:"A DNS name that the certificate holds, exactly; or"`
	URI       string `yaml:"uri" doc:"a URI that it holds, exactly."`
}

// Trust is who certifies programs.
type Trust = yamlfile.Entries[Authority]

// Authority is a plain certificate authority, or a SPIFFE trust domain.
type Authority struct {
	CA          string `yaml:"ca" doc:"PEM file with the roots of a plain authority; or"`
	SPIFFE      string `yaml:"spiffe" doc:"a SPIFFE trust domain, such as example.org, with"`
	Bundle      string `yaml:"bundle" doc:"a file with its bundle, as SPIFFE's JSON or as PEM; or"`
	WorkloadAPI string `yaml:"workload_api" doc:"the socket of the SPIFFE Workload API: unix:///PATH."`
}

// Time is a moment, written with its offset from UTC.
type Time struct{ time.Time }

// UnmarshalText reads RFC 3339. A date alone would leave open when the day ends.
func (t *Time) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return errors.New("wants a time such as 2027-01-31T12:00:00Z")
	}
	t.Time = at.UTC()
	return nil
}

// Permission is what a program may do.
type Permission string

func (Permission) Choices() []string {
	return []string{"propose", "vouch", "read", "operate", "operate_all"}
}

// Permissions are who may do what. References are group:NAME or group:NAME@ISSUER.
type Permissions struct {
	Operate    []string `yaml:"operate" doc:"Who may operate this server."`
	OperateAll []string `yaml:"operate_all" doc:"Who owns this server: they operate, and may revoke in every tenant. Nobody by default."`
	Read       []string `yaml:"read" doc:"Who may read records, without operating."`
}

// Runs bounds runs.
type Runs struct {
	Idle          time.Duration `yaml:"idle" default:"30m" doc:"Silence that ends a run of a client that names none."`
	TaintLasts    time.Duration `yaml:"taint_lasts" default:"24h" doc:"How long labels, caps and rejections of unvouched lineages count."`
	CallsPerTurn  int           `yaml:"calls_per_turn" default:"40" doc:"Calls in one turn."`
	CallsPerRun   int           `yaml:"calls_per_run" default:"400" doc:"Calls in one run."`
	ProposalsOpen int           `yaml:"proposals_open" default:"100" doc:"Proposals of one lineage that are open at the same time, those that wait for a person among them."`
	OpenInTurn    int           `yaml:"proposals_open_turn" default:"100" doc:"Those of one turn that are open at the same time, whatever their lineage may have."`
	OpenOfOne     int           `yaml:"proposals_open_principal" default:"500" doc:"Those of one principal, in all lineages, that are open at the same time."`
	TurnsPerRun   int           `yaml:"turns_per_run" doc:"Turns in one run, those after an approval too; 0 means no limit."`
	Money         Money         `yaml:"money" doc:"Money in one run and its children, by currency, such as EUR: \"500\". Where it is given, a currency that it does not name may not be spent."`
	Depth         int           `yaml:"depth" default:"2" doc:"How deep child runs lie below one another; 0 means that runs open none."`
	FanOut        int           `yaml:"fan_out" default:"8" doc:"Child runs of one run that live at the same time."`
}

// Money is amounts by currency.
type Money = yamlfile.Entries[yamlfile.Decimal]

// Budgets bound what is spent.
type Budgets struct {
	PerDay Money `yaml:"per_day" doc:"What one principal may spend in any 24 hours, by currency, such as EUR: \"1000\". Where it is given, a currency that it does not name may not be spent."`
}

// Agents are what agents are held to.
type Agents = yamlfile.Entries[Agent]

// Agent is what one agent is held to.
type Agent struct {
	Only Only `yaml:"only" doc:"read: every tool that is not marked read is hidden from it."`
}

// Only is a kind of tools.
type Only string

func (Only) Choices() []string { return []string{"read"} }

// Ingress bounds the requests of one credential.
type Ingress struct {
	PerSecond int `yaml:"per_second" default:"1000" doc:"Requests a second, over time; 0 means no limit."`
	Burst     int `yaml:"burst" default:"5000" doc:"Requests at once."`
}

// History bounds transcripts.
type History struct {
	Bytes int `yaml:"bytes" default:"67108864" doc:"Of a transcript that is checked as it arrives: its format is named, and no run."`
	Held  int `yaml:"held" default:"8388608" doc:"Bytes of any other one. It is held in memory with what is read from it, some ten times as much; at most four at once."`
}

// Quota bounds the events of a tenant. Outcomes, answers and ends are never refused.
type Quota struct {
	Events  int           `yaml:"events" default:"2000000" doc:"Events of one tenant in per; 0 means no quota."`
	Reserve int           `yaml:"reserve" default:"200000" doc:"Of these, how many are kept for what follows from calls that exist: no new proposal takes them."`
	Per     time.Duration `yaml:"per" default:"1h" doc:"Over which time they are counted."`
}

// Calls bounds calls.
type Calls struct {
	Expires time.Duration `yaml:"expires" default:"1h" doc:"When a call that did not run ends, unless its approval lasts longer."`

	RecordArguments Recording     `yaml:"record_arguments" default:"full" doc:"What stays of the arguments once a call has ended, where its tool says nothing: full; redacted, their names and the values of targets; or digest, none of them."`
	Retention       time.Duration `yaml:"retention" doc:"How long after its end a call keeps arguments, targets, what approvers were shown, and result, where its tool says nothing; events stay. 0 means for good."`
}

// Recording is what stays of arguments.
type Recording string

// Choices are its values, which are those of record.Recording.
func (Recording) Choices() []string { return []string{"full", "redacted", "digest"} }

// Approvals says how people are asked.
type Approvals struct {
	Wait    time.Duration `yaml:"wait" default:"25s" doc:"How long the caller is held before it is told to wait; many clients give up at 60s."`
	Default *Approvers    `yaml:"default" doc:"Whom a rule asks that names nobody; without it, such a call is denied."`

	Notify []Receiver `yaml:"notify" doc:"Where links to questions are sent. Nobody can answer from there."`
}

// Approvers is whom to ask. References are group:NAME, group:NAME@ISSUER or
// principal:SUBJECT@ISSUER.
type Approvers struct {
	Approvers []string      `yaml:"approvers,required" doc:"group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER."`
	Quorum    int           `yaml:"quorum" default:"1" doc:"How many distinct persons must say yes."`
	Expires   time.Duration `yaml:"expires" default:"4h" doc:"How long the question and its yes hold."`
	Reason    Required      `yaml:"reason" doc:"required: whoever answers must say why, for yes and for no."`
	Passkey   bool          `yaml:"passkey" doc:"A yes counts only if it is signed with the approver's passkey."`
}

// Required is the one word by which something is demanded.
type Required string

func (Required) Choices() []string { return []string{"required"} }

// Console is the login of the console, as a client of one of the issuers. Its
// redirect URI there is public_url + /console/callback, and after signing out the
// browser returns to public_url + /console.
type Console struct {
	Issuer         string             `yaml:"issuer,required" doc:"One of the issuers, whose people answer and operate."`
	ClientID       string             `yaml:"client_id,required" doc:"The console's client at the issuer. It is for approving alone: agents use another one."`
	ClientSecret   yamlfile.SecretRef `yaml:"client_secret" doc:"Reference to its secret: env:NAME or file:PATH. Without it, it is a public client; PKCE is used in any case."`
	Scopes         yamlfile.Strings   `yaml:"scopes" default:"openid" doc:"Scopes that are asked for; openid always is. With offline_access, sign-ins are renewed where the issuer allows it."`
	TerminalClient string             `yaml:"terminal_client" doc:"The public client of placet login at the issuer, with the redirect URI http://127.0.0.1/callback at any port. It is for approving alone. Without it, nobody signs in from a terminal."`
	Ask            Ask                `yaml:"ask" default:"resource" doc:"The parameter by which public_url + /console is asked for as the token's audience: resource (RFC 8707), audience, or none where the client or a scope stands for it."`
}

// Ask is a parameter that names an audience.
type Ask string

const (
	AskResource Ask = "resource"
	AskAudience Ask = "audience"
	AskNone     Ask = "none"
)

func (Ask) Choices() []string {
	return []string{string(AskResource), string(AskAudience), string(AskNone)}
}

// Telemetry is what this server says about itself.
type Telemetry struct {
	Log     LogLevel `yaml:"log" default:"info" doc:"Least level that is logged."`
	Metrics string   `yaml:"metrics" doc:"Address, as IP:PORT, where Prometheus reads metrics at /metrics over plain HTTP, without a sign-in: they name no caller, tool, tenant or value. Keep it where only the monitoring reaches it."`
	Traces  string   `yaml:"traces" doc:"Base URL of a collector that takes OpenTelemetry traces over HTTP (OTLP), such as http://127.0.0.1:4318; without a path, /v1/traces. Spans name tools, IDs of this server and how calls ended; no person, tenant, argument or result. OTEL_EXPORTER_OTLP_HEADERS holds headers that the collector demands."`
}

// LogLevel is a level of the log.
type LogLevel string

func (LogLevel) Choices() []string { return []string{"debug", "info", "warn", "error"} }
