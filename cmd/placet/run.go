package main

import (
	"context"
	"io"

	"github.com/alecthomas/kong"
	"github.com/placet-dev/placet/record"
)

// commands is the whole command line. The order is that of the help.
type commands struct {
	JSON bool `name:"json" help:"Print one JSON object a line, errors too."`

	Init       initCommand       `cmd:"" help:"Write a commented, working configuration."`
	Check      checkCommand      `cmd:"" help:"Check configuration, registry, lock and policy; explain a token."`
	Serve      serveCommand      `cmd:"" help:"Run the server."`
	Dev        devCommand        `cmd:"" help:"Run a server for trying things out, with an issuer of its own."`
	Demo       demoCommand       `cmd:"" help:"Play the demo: a gateway, a help desk with a ledger, a scripted agent."`
	Login      loginCommand      `cmd:"" help:"Sign in by browser, to answer questions and to operate."`
	Logout     logoutCommand     `cmd:"" help:"Sign out again."`
	Connect    connectCommand    `cmd:"" help:"Carry MCP from a desktop client to a server, and sign its user in."`
	Tools      toolsCommand      `cmd:"" help:"Show, admit, compare and pin tools."`
	Doctor     doctorCommand     `cmd:"" help:"Look at what a server rests on, and say what to do about it."`
	Policy     policyCommand     `cmd:"" help:"Write, test, explain, activate and compare policy."`
	Reload     reloadCommand     `cmd:"" help:"Have a server read registry and policy again."`
	Backup     backupCommand     `cmd:"" help:"Copy a SQLite store and verify the copy."`
	Restore    restoreCommand    `cmd:"" help:"Put a verified backup in the place of the SQLite store."`
	Recover    recoverCommand    `cmd:"" help:"Open a new epoch of a store that was restored."`
	Migrate    migrateCommand    `cmd:"" help:"Bring the schema of a PostgreSQL store to this version."`
	Keys       keysCommand       `cmd:"" help:"Make, list, rotate and revoke keys of workloads."`
	Runs       runsCommand       `cmd:"" help:"List, show and end runs."`
	Calls      callsCommand      `cmd:"" help:"Propose, list, show, continue, cancel and settle calls."`
	Schedules  schedulesCommand  `cmd:"" help:"Have tools called at set times."`
	Approvals  approvalsCommand  `cmd:"" help:"List, show and answer questions."`
	Revoke     revokeCommand     `cmd:"" help:"Stop a tool, a server, a person, an agent, a run or everything, now."`
	Passkeys   passkeysCommand   `cmd:"" help:"Remove passkeys of people who have lost them."`
	History    historyCommand    `cmd:"" help:"Check transcripts of conversations."`
	Explain    explainCommand    `cmd:"" help:"Say what a call would get, and change nothing."`
	Audit      auditCommand      `cmd:"" help:"Read the event log."`
	Overrides  overridesCommand  `cmd:"" help:"List every setting that weakens a default."`
	Version    versionCommand    `cmd:"" help:"Say which version this is."`
	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	DemoChild  demoChild         `cmd:"" name:"demo-child" hidden:"" help:"One of the demo's processes."`
	Complete   completeCommand   `cmd:"" hidden:"" help:"Words that complete a command line."`
}

// program is what a command works with beside its flags.
type program struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(name string) (string, bool)
	json   bool
	model  *kong.Application
}

// leave ends parsing when kong has printed a help text.
type leave struct{ code int }

// run is one invocation; the result is the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) (code int) {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, env: env}
	defer func() {
		switch left := recover().(type) {
		case nil:
		case leave:
			code = left.code
		default:
			panic(left)
		}
	}()
	var c commands
	parser, err := kong.New(&c, kong.Name("placet"), kong.Writers(stdout, stderr), kong.Help(help),
		kong.Exit(func(code int) { panic(leave{code}) }), kong.UsageOnError(), kong.Vars{"version": version()},
		kong.Description("The dispatch boundary for AI agents' tool calls: it decides and records every call before it runs."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}))
	if err != nil {
		return p.fail(err)
	}
	p.model = parser.Model
	p.json = asked(args, "--json")
	parsed, err := parser.Parse(args)
	if err != nil {
		return p.fail(record.Errorf(record.Invalid, "%w; see placet --help", err))
	}
	p.json = c.JSON
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(p); err != nil {
		return p.fail(err)
	}
	return 0
}

// asked reports whether a flag stands before any "--", for errors of parsing itself.
func asked(args []string, flag string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == flag {
			return true
		}
	}
	return false
}
