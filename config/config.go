package config

import (
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
	Store       string           `yaml:"store,required" doc:"Where records are kept: sqlite:PATH."`
	Registry    yamlfile.Strings `yaml:"registry,required" doc:"Files that name the tools, each with its lock beside it."`
	Policy      Policy           `yaml:"policy" doc:"Layers that judge calls."`
	Issuers     []Issuer         `yaml:"issuers" doc:"Who may say who is calling."`
	Workloads   Workloads        `yaml:"workloads" doc:"Credentials of programs, apart from their users', by name."`
	Credentials Credentials      `yaml:"credentials" doc:"Profiles: what tool servers are called with, by name. Agents never see these."`
	Permissions Permissions      `yaml:"permissions" doc:"Which groups may do what, apart from calling tools."`
	Runs        Runs             `yaml:"runs" doc:"Bounds of runs."`
	Calls       Calls            `yaml:"calls" doc:"Bounds of calls."`
	Approvals   Approvals        `yaml:"approvals" doc:"How people are asked."`
	Telemetry   Telemetry        `yaml:"telemetry" doc:"What this server says about itself."`

	TrustedProxies yamlfile.Later `yaml:"trusted_proxies" doc:"Networks that may state a client's address."`
	Console        yamlfile.Later `yaml:"console" doc:"Login of the console."`
	Identities     yamlfile.Later `yaml:"identities" doc:"Which subjects of several issuers are one person."`
	Delegation     yamlfile.Later `yaml:"delegation" doc:"Authority while the caller is away."`
	Agents         yamlfile.Later `yaml:"agents" doc:"Limits by agent."`
	Money          yamlfile.Later `yaml:"money" doc:"Limits on money."`
	Ingress        yamlfile.Later `yaml:"ingress" doc:"Limits before the boundary."`
	Quota          yamlfile.Later `yaml:"quota" doc:"Limits by tenant."`
	Alerts         yamlfile.Later `yaml:"alerts" doc:"Who hears of what."`
	Retention      yamlfile.Later `yaml:"retention" doc:"How long records are kept."`
	Providers      yamlfile.Later `yaml:"providers" doc:"Model providers."`
	Schedules      yamlfile.Later `yaml:"schedules" doc:"Calls at set times."`
	Checkpoint     yamlfile.Later `yaml:"checkpoint" doc:"Where checkpoints of the log are published."`
	Sandbox        yamlfile.Later `yaml:"sandbox" doc:"How commands are confined."`
	Egress         yamlfile.Later `yaml:"egress" doc:"Where this server may connect to."`
	SameUser       yamlfile.Later `yaml:"same_user" doc:"Commands may run as this server's user."`

	file, folder string
	storePath    string
}

// Hints names what people write for a key.
func (*Config) Hints() map[string]string {
	return map[string]string{
		"database": "store: sqlite:PATH", "port": "listen: ADDRESS:PORT", "address": "listen: ADDRESS:PORT",
		"tools": "registry: [tools.yaml]", "env": "environment", "url": "public_url", "log": "telemetry: {log: …}",
		"layers": "policy: {layers: […]}", "certificate": "tls: {certificate: …, key: …}",
	}
}

// File is the path that was loaded.
func (c *Config) File() string { return c.file }

// Folder is what relative paths of the file mean.
func (c *Config) Folder() string { return c.folder }

// StorePath is the path of the SQLite file.
func (c *Config) StorePath() string { return c.storePath }

// Audience is what tokens for calling tools are for, where an issuer says
// nothing else.
func (c *Config) Audience() string { return c.PublicURL + "/mcp" }

// ConsoleAudience is what tokens for answering approvals are for (rule D4).
func (c *Config) ConsoleAudience() string { return c.PublicURL + "/console" }

// TLS is a certificate with its key.
type TLS struct {
	Certificate string `yaml:"certificate,required" doc:"PEM file with the certificate chain."`
	Key         string `yaml:"key,required" doc:"PEM file with the private key."`
}

// Policy is the layers. No layers means that the registry alone decides.
type Policy struct {
	Timeout time.Duration `yaml:"timeout" default:"50ms" doc:"How long each layer may take; slower, broken or silent denies."`
	Layers  []Layer       `yaml:"layers" doc:"Every layer whose for fits is asked; the most restrictive verdict wins."`
}

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

// Mode says whether a layer's verdict is applied.
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
	TokenTypes []string         `yaml:"token_types" default:"at+jwt,JWT" doc:"Values of the token's typ header that are accepted."`
	Tenant     string           `yaml:"tenant,required" doc:"The one tenant it speaks for, or claims.NAME with tenants."`
	Tenants    []string         `yaml:"tenants" doc:"Tenants that the claim may name."`
	Claims     Claims           `yaml:"claims" doc:"Which claims say what."`
	Keys       string           `yaml:"keys" doc:"JWKS file, or its URL. Default: discovery at the issuer."`
	Delegation *Delegation      `yaml:"delegation" doc:"Lets runs keep the authority of a caller who is away, as long as this issuer confirms it."`

	Client      yamlfile.Later `yaml:"client" doc:"What MCP clients are told to register as."`
	MaxTokenAge yamlfile.Later `yaml:"max_token_age" doc:"How old a token may be."`
}

// TenantClaim returns the claim that names the tenant, or "" when the tenant is
// a constant.
func (i Issuer) TenantClaim() string {
	if claim, ok := cutClaim(i.Tenant); ok {
		return claim
	}
	return ""
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
	Key         yamlfile.SecretRef `yaml:"key,required" doc:"Reference to the hash of its key: env:NAME or file:PATH."`
	Tenant      string             `yaml:"tenant" doc:"Its tenant. Default: the one there is; needed where there are several."`
	Permissions []Permission       `yaml:"permissions,required" doc:"What it may do: propose, vouch, read, operate."`

	Expires yamlfile.Later `yaml:"expires" doc:"When the key ends."`
}

// Permission is what a program may do.
type Permission string

func (Permission) Choices() []string { return []string{"propose", "vouch", "read", "operate"} }

// Permissions are who may do what. References are group:NAME or group:NAME@ISSUER.
type Permissions struct {
	Operate []string `yaml:"operate" doc:"Who may operate this server."`
	Read    []string `yaml:"read" doc:"Who may read records, without operating."`
}

// Runs bounds runs.
type Runs struct {
	Idle          time.Duration `yaml:"idle" default:"30m" doc:"Silence that ends a run of a client that names none."`
	TaintLasts    time.Duration `yaml:"taint_lasts" default:"24h" doc:"How long labels, caps and rejections of unvouched lineages count."`
	CallsPerTurn  int           `yaml:"calls_per_turn" default:"40" doc:"Calls in one turn."`
	CallsPerRun   int           `yaml:"calls_per_run" default:"400" doc:"Calls in one run."`
	ProposalsOpen int           `yaml:"proposals_open" default:"100" doc:"Proposals that are open at the same time."`

	TurnsPerRun yamlfile.Later `yaml:"turns_per_run" doc:"Turns in one run."`
	Money       yamlfile.Later `yaml:"money" doc:"Money in one run."`
	Depth       yamlfile.Later `yaml:"depth" doc:"Child runs inside one another."`
	FanOut      yamlfile.Later `yaml:"fan_out" doc:"Child runs of one run."`
}

// Calls bounds calls.
type Calls struct {
	Expires time.Duration `yaml:"expires" default:"1h" doc:"When a call that did not run ends, unless its approval lasts longer."`

	RecordArguments yamlfile.Later `yaml:"record_arguments" doc:"What is kept of arguments."`
	Retention       yamlfile.Later `yaml:"retention" doc:"How long calls are kept."`
}

// Approvals says how people are asked.
type Approvals struct {
	Wait    time.Duration `yaml:"wait" default:"25s" doc:"How long the caller is held before it is told to wait; many clients give up at 60s."`
	Default *Approvers    `yaml:"default" doc:"Whom a rule asks that names nobody; without it, such a call is denied."`

	Notify yamlfile.Later `yaml:"notify" doc:"Where links to questions are sent."`
}

// Approvers is whom to ask. References are group:NAME, group:NAME@ISSUER or
// principal:SUBJECT@ISSUER.
type Approvers struct {
	Approvers []string      `yaml:"approvers,required" doc:"group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER."`
	Quorum    int           `yaml:"quorum" default:"1" doc:"How many distinct persons must say yes."`
	Expires   time.Duration `yaml:"expires" default:"4h" doc:"How long the question and its yes hold."`
}

// Telemetry is what this server says about itself.
type Telemetry struct {
	Log LogLevel `yaml:"log" default:"info" doc:"Least level that is logged."`

	Metrics yamlfile.Later `yaml:"metrics" doc:"Address of the metrics."`
	Traces  yamlfile.Later `yaml:"traces" doc:"Where traces are sent."`
}

// LogLevel is a level of the log.
type LogLevel string

func (LogLevel) Choices() []string { return []string{"debug", "info", "warn", "error"} }
