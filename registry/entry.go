package registry

import (
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// File is the shape of tools.yaml.
type File struct {
	Version  int                           `yaml:"version,required" doc:"Version of this file's format: 1."`
	Networks yamlfile.Entries[[]string]    `yaml:"networks" doc:"Parts of the network, by name: blocks of addresses. public, every public address, is always there."`
	Servers  yamlfile.Entries[ServerEntry] `yaml:"servers" doc:"Where tools run, by name."`
	Defaults Defaults                      `yaml:"defaults" doc:"What the tools of this file get where their entry says nothing."`
	Tools    yamlfile.Entries[Entry]       `yaml:"tools" doc:"Every tool that exists, by its one name."`
}

// Check refuses a format that this program does not know.
func (f *File) Check(fail func(key, message string)) {
	if f.Version != 1 {
		fail("version", "is not known to this program; it reads version 1")
	}
}

// Defaults fill gaps of entries.
type Defaults struct {
	PerMinute  int           `yaml:"per_minute" default:"30" doc:"Calls per minute, per tool and principal; 0 means no limit."`
	Concurrent int           `yaml:"concurrent" default:"4" doc:"Calls of one tool and principal at the same time; 0 means no limit."`
	Timeout    time.Duration `yaml:"timeout" default:"20s" doc:"How long one attempt may take."`
	Retry      Retry         `yaml:"retry" default:"never" doc:"Whether an unknown outcome may be tried again."`
}

// ServerEntry is one server as the file gives it.
type ServerEntry struct {
	URL           string        `yaml:"url" doc:"MCP endpoint over Streamable HTTP."`
	Command       []string      `yaml:"command" doc:"Program and arguments of an MCP server over stdio."`
	Env           []string      `yaml:"env" doc:"Names of environment variables that the command gets; it gets no others."`
	Stateless     bool          `yaml:"stateless" doc:"Sessions may be shared between principals."`
	ToolsMaxAge   time.Duration `yaml:"tools_max_age" default:"60s" doc:"How old the server's list of tools may be when a call is checked against it."`
	Queries       string        `yaml:"queries" doc:"Folder of named SQL queries, NAME.sql; each is a tool of this server."`
	Database      string        `yaml:"database" doc:"What the queries run on: postgres, whose connection string is the credential, or sqlite:PATH."`
	Operations    string        `yaml:"operations" doc:"File of HTTP operations; each is a tool of this server."`
	Files         string        `yaml:"files" doc:"Absolute path of a folder, in which {tenant} and {principal} stand for the caller's; reading and writing it are the tools of this server."`
	InputRequired bool          `yaml:"input_required" doc:"The server may ask the user back during a call."`
	Sampling      bool          `yaml:"sampling" doc:"The server may ask the client's model during a call; needs input_required."`
	DispatchToken bool          `yaml:"dispatch_token" doc:"Calls carry a dispatch token, which the server verifies."`
	Network       string        `yaml:"network" doc:"url, operations: the one of networks that it is in. Placet connects to it at no other address."`
	Credential    string        `yaml:"credential" doc:"Credential profile that calls carry, one of credentials in placet.yaml."`
	Lease         bool          `yaml:"lease" doc:"A framework runs the tools itself, under a lease."`

	SameUser yamlfile.Later `yaml:"same_user" doc:"The command may run as Placet's own user."`
	Sandbox  yamlfile.Later `yaml:"sandbox" doc:"How the command is confined."`
	Egress   yamlfile.Later `yaml:"egress" doc:"Where the command may connect to."`
}

// Hints names what people write for a key.
func (*ServerEntry) Hints() map[string]string {
	return map[string]string{"args": "command: [program, argument, …]", "endpoint": "url", "environment": "env", "unverified_lease": "unverified_lease: accepted, at each tool"}
}

// Entry is one tool as the file, or an embedding program, gives it.
type Entry struct {
	Server string `yaml:"server,required" doc:"Name of the server that runs it."`
	Tool   string `yaml:"tool" doc:"Its name at the server, where that differs."`

	Resource  string `yaml:"resource" doc:"URI of a resource, or URI template of resources (RFC 6570 level 1), in place of a tool."`
	Prompt    string `yaml:"prompt" doc:"Name of a prompt at the server, in place of a tool."`
	Completes string `yaml:"completes" doc:"Entry of a prompt or resource template whose arguments are completed, in place of a tool."`

	Scope        string       `yaml:"scope" doc:"Scope that the end user must have."`
	Callers      CallersEntry `yaml:"callers" doc:"Who may call it; without it, everyone with the scope."`
	Environments []string     `yaml:"environments" doc:"Environments in which it exists; without it, all."`

	Read        bool `yaml:"read" doc:"Changes nothing."`
	Write       bool `yaml:"write" doc:"Changes something, and none of the stronger marks fits."`
	Destructive bool `yaml:"destructive" doc:"Its effect cannot be undone."`
	Financial   bool `yaml:"financial" doc:"Moves money."`
	Sink        bool `yaml:"sink" doc:"Sends data out, or can."`

	Sources      []SourceName `yaml:"sources" doc:"How well it must be shown that a model proposed the call. Default: all for read tools, else witnessed and vouched."`
	SourcesBelow Below        `yaml:"sources_below" default:"ask" doc:"What happens to a source that is not listed."`

	PerMinute  *int           `yaml:"per_minute" doc:"Calls per minute, per principal."`
	PerRun     int            `yaml:"per_run" doc:"Calls per run; 0 means no limit of its own."`
	Concurrent *int           `yaml:"concurrent" doc:"Calls at the same time, per principal."`
	PerTenant  TenantLimits   `yaml:"per_tenant" doc:"The same limits for all principals of a tenant together."`
	Cost       *CostEntry     `yaml:"cost" doc:"What a call costs."`
	Timeout    *time.Duration `yaml:"timeout" doc:"How long one attempt may take."`

	Guards              yamlfile.Entries[GuardEntry]  `yaml:"guards" doc:"Semantic rules on arguments, by argument."`
	Targets             []string                      `yaml:"targets" mapping:"TargetKinds" doc:"Arguments that name what the call acts on: a list, or a mapping of each to its kind. Dots go into objects and lists."`
	TargetKinds         yamlfile.Entries[TargetEntry] `yaml:"-"`
	SameEffect          []string                      `yaml:"same_effect" doc:"Arguments that make two calls the same effect; without it, all."`
	IdempotencyArgument string                        `yaml:"idempotency_argument" doc:"Argument that Placet fills with the call's idempotency key; the model never sees it."`
	AutonomousLimit     *LimitEntry                   `yaml:"autonomous_limit" doc:"Up to here without a question."`
	Effect              string                        `yaml:"effect" doc:"What approvers read, such as: Refund {amount} on order {order_id}."`
	Approval            Asking                        `yaml:"approval" doc:"When and whom it asks."`
	Repeat              RepeatEntry                   `yaml:"repeat" doc:"What an equal call that already succeeded gets."`
	Retry               *Retry                        `yaml:"retry" doc:"Whether an unknown outcome may be tried again."`
	Errors              ErrorMeaning                  `yaml:"errors" doc:"What the server's errors mean; no_effect: nothing happened."`
	Mode                Mode                          `yaml:"mode" default:"enforce" doc:"observe: its own rules are recorded, not applied."`
	MaxRows             int                           `yaml:"max_rows" doc:"Most rows that a named query returns. Default: 100."`
	Instead             string                        `yaml:"instead" doc:"What the model is told to do instead when the call is denied."`

	Privacy    bool                             `yaml:"privacy" doc:"Handles personal data; as strict as a sink."`
	Taint      Taint                            `yaml:"taint" doc:"What a labelled lineage gets: ask, deny, or ask_unless_trusted_targets. Default: ask for destructive, financial, privacy and sink tools and those with feeds, else nothing."`
	Results    ResultsEntry                     `yaml:"results" doc:"What the results hold, and what of it counts."`
	Names      []string                         `yaml:"names" doc:"Arguments that name a new thing, such as title or filename: the user's own words."`
	AskedFor   []string                         `yaml:"asked_for" doc:"Words of which the user must have typed one."`
	Feeds      []string                         `yaml:"feeds" doc:"Tools that return what this one writes; it is then as strict as a sink."`
	Unseen     bool                             `yaml:"unseen" doc:"A lineage whose model input nobody shows counts as labelled for this tool."`
	Data       []string                         `yaml:"data" doc:"Data classes that a lineage may have read when it calls this; without it, all."`
	Directory  yamlfile.Entries[DirectoryEntry] `yaml:"directory" doc:"By argument, look-ups whose values count as the operator's."`
	LinksFrom  []string                         `yaml:"links_from" doc:"Tools whose links may be fetched."`
	Compensate CompensateEntry                  `yaml:"compensate" doc:"The tool that undoes it, shown to operators for calls that had their effect or may have had it. Nobody proposes it."`
	DryRun     DryRunEntry                      `yaml:"dry_run" doc:"How its effect is previewed for approvers, when the question is opened: by a tool that only reads, or by this one with an argument that makes it only read."`
	Reconcile  ReconcileEntry                   `yaml:"reconcile" doc:"How an unknown outcome is looked into: the tool that knows, what it is asked, and which answer proves what."`
	Network    []string                         `yaml:"network" doc:"Networks that it may reach, its server's among them: what its url and host arguments name must be there too. Without it, all."`
	Given      GivenMode                        `yaml:"given" doc:"any: given values count for targets of other names too."`

	Schema     string     `yaml:"schema" doc:"For tools that a framework runs: file with the JSON Schema of the arguments, beside this one. Its title and description are the tool's."`
	Unverified Acceptance `yaml:"unverified_lease" doc:"accepted: a framework may run it though nothing at the tool verifies the dispatch token."`

	Dispatch  DispatchMode `yaml:"dispatch" default:"at_once" doc:"When an allowed call runs: at_once, in the request that proposed it, or queued, by the boundary's clock or when its agent comes back."`
	Schedules Scheduling   `yaml:"schedules" default:"never" doc:"allowed: agents may have it called at set times."`

	RecordArguments record.Recording `yaml:"record_arguments" doc:"What stays of the arguments once a call has ended: full; redacted, their names and the values of targets; or digest, none of them. Default: calls.record_arguments of placet.yaml."`
	Retention       time.Duration    `yaml:"retention" doc:"How long after its end a call keeps arguments, targets, what approvers were shown, and result; events stay. At least repeat.within. Default: calls.retention of placet.yaml."`

	Credential    yamlfile.Later `yaml:"credential" doc:"Credential profile of its calls."`
	DispatchToken yamlfile.Later `yaml:"dispatch_token" doc:"It verifies dispatch tokens."`
}

// Hints names what people write for a key.
func (*Entry) Hints() map[string]string {
	return map[string]string{
		"max_amount": "autonomous_limit: {argument: …, max: …}", "limit": "autonomous_limit: {argument: …, max: …}",
		"rate": "per_minute", "rate_limit": "per_minute", "readonly": "read", "read_only": "read",
		"readonlyhint": "read", "destructivehint": "destructive", "requires_approval": "approval: {when: always}",
		"agents": "callers: {agents: […]}", "groups": "callers: {groups: […]}", "tenants": "callers: {tenants: […]}",
		"principals": "callers: {principals: […]}", "users": "callers: {principals: […]}",
		"outbound": "sink", "name": "tool", "uri": "resource", "template": "resource", "uri_template": "resource", "completion": "completes", "observe": "mode: observe", "when": "approval: {when: …}",
	}
}

// CompensateEntry names the tool that undoes another one.
type CompensateEntry struct {
	Tool string `yaml:"tool,required" doc:"Its name in the registry."`
}

// Hints names what people write for a key.
func (*CompensateEntry) Hints() map[string]string {
	return map[string]string{"name": "tool", "with": "tool"}
}

// CallersEntry is who may call a tool. A caller fits when each list that is
// given holds it; a list that is not given holds everyone.
type CallersEntry struct {
	Principals []string `yaml:"principals" doc:"subject@issuer, or subject where one issuer is configured."`
	Tenants    []string `yaml:"tenants" doc:"Tenants."`
	Agents     []string `yaml:"agents" doc:"Agents, as tokens name them."`
	Groups     []string `yaml:"groups" doc:"Groups, of which one is enough: name@issuer, or name where one issuer is configured."`
}

func (c CallersEntry) names() bool {
	return len(c.Principals)+len(c.Tenants)+len(c.Agents)+len(c.Groups) > 0
}

// TenantLimits are limits on what a tenant does with one tool.
type TenantLimits struct {
	PerMinute  int `yaml:"per_minute" doc:"Calls per minute; 0 means no limit."`
	Concurrent int `yaml:"concurrent" doc:"Calls at the same time; 0 means no limit."`
}

// Asking is the approval rule of an entry.
type Asking struct {
	When      When          `yaml:"when" doc:"always, above_limit, or asked: only if policy or labels ask. Default: always for tools that are not read, else asked; above_limit with an autonomous_limit."`
	Approvers []string      `yaml:"approvers" doc:"group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER. Default: approvals.default of placet.yaml."`
	Quorum    int           `yaml:"quorum" doc:"How many distinct persons must say yes."`
	Self      bool          `yaml:"self" doc:"The principal of the call may be one of them."`
	Expires   time.Duration `yaml:"expires" doc:"How long the question and its yes hold."`
	Purpose   Purpose       `yaml:"purpose" doc:"required: the proposer must state a purpose."`
	Reason    Reason        `yaml:"reason" doc:"required: whoever answers must say why, for yes and for no."`
	Passkey   bool          `yaml:"passkey" doc:"A yes counts only if it is signed with the approver's passkey."`
}

// Hints names what people write for a key.
func (*Asking) Hints() map[string]string {
	return map[string]string{"groups": "approvers: [group:…]", "from": "approvers: [group:…]", "self_approval": "self", "timeout": "expires"}
}

// RepeatEntry is what an equal call that already succeeded gets (rule A7).
type RepeatEntry struct {
	Within time.Duration `yaml:"within" default:"10m" doc:"How long ago the equal call may have succeeded."`
	Answer RepeatAnswer  `yaml:"answer" default:"return" doc:"return its recorded result, ask a person, or run again."`
}

// SourceName is a source as configuration spells it.
type SourceName string

func (SourceName) Choices() []string {
	return []string{string(record.Witnessed), string(record.Vouched), string(record.Direct)}
}

// Below is what a source that is not listed gets.
type Below string

func (Below) Choices() []string { return []string{"ask", "deny"} }

// Retry says when an unknown outcome may be tried again (rule E2).
type Retry string

const (
	RetryNever      Retry = "never"
	RetrySafe       Retry = "safe"       // a read: trying again changes nothing
	RetryIdempotent Retry = "idempotent" // the server honours the idempotency key
	RetryReconcile  Retry = "reconcile"  // after a look-up proved that nothing happened
	RetryManual     Retry = "manual"     // an operator says so each time
)

func (Retry) Choices() []string {
	return []string{string(RetryNever), string(RetrySafe), string(RetryIdempotent), string(RetryReconcile), string(RetryManual)}
}

// When says when a tool asks.
type When string

const (
	Always     When = "always"
	AboveLimit When = "above_limit"
	Asked      When = "asked"
)

func (When) Choices() []string { return []string{string(Always), string(AboveLimit), string(Asked)} }

// RepeatAnswer is what a repeat gets.
type RepeatAnswer string

const (
	RepeatReturn RepeatAnswer = "return"
	RepeatAsk    RepeatAnswer = "ask"
	RepeatRun    RepeatAnswer = "run"
)

func (RepeatAnswer) Choices() []string {
	return []string{string(RepeatReturn), string(RepeatAsk), string(RepeatRun)}
}

// ErrorMeaning is what a server's errors mean (rule E1).
type ErrorMeaning string

// NoEffect says that an error of this tool proves that nothing happened.
const NoEffect ErrorMeaning = "no_effect"

func (ErrorMeaning) Choices() []string { return []string{string(NoEffect)} }

// Mode says whether a tool's own rules are applied (rule H3).
type Mode string

func (Mode) Choices() []string { return []string{"enforce", "observe"} }

// Purpose says whether a purpose must be stated (rule A13).
type Purpose string

func (Purpose) Choices() []string { return []string{"required"} }

// Reason says whether an answer must say why.
type Reason string

func (Reason) Choices() []string { return []string{"required"} }
