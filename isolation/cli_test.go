package isolation_test

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPromise_P7_EveryCommand: the command line, for the columns that matter to
// each command. The doors behind are those of the API; what may differ is what a
// command prints, asks first and exits with.
func TestPromise_P7_EveryCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := commands()
	var tested []string
	rows = append(rows, historyCommands()...)
	rows = append(rows, laterCommands()...)
	for n, r := range rows {
		rows[n].exits = true
		words := strings.Fields(r.name)
		name := strings.Join(words[:min(2, len(words))], " ")
		if alone := []string{"explain", "overrides", "reload"}; slices.Contains(alone, words[0]) {
			name = words[0]
		}
		tested = append(tested, name)
	}
	match(t, "command", slices.DeleteFunc(w.leaves(), func(name string) bool {
		// dev token takes --server and speaks to none: it signs with the key in its
		// folder. approvals watch ends when it is interrupted; what it reads are the
		// operations stream-approvals and list-approvals.
		return name == "dev token" || name == "approvals watch"
	}), tested)
	check(t, w, rows)
}

// leaves are the commands that take --server, found as a shell's completion finds them.
func (w *world) leaves(path ...string) []string {
	w.t.Helper()
	var below []string
	speaks := false
	words := append(append([]string{"complete", "--"}, path...), "")
	for word := range strings.FieldsSeq(w.mustRun(words...)) {
		switch {
		case word == "--server":
			speaks = true
		case strings.HasPrefix(word, "-"):
		default:
			below = append(below, w.leaves(append(slices.Clone(path), word)...)...)
		}
	}
	if len(below) == 0 && speaks {
		return []string{strings.Join(path, " ")}
	}
	return below
}

// of makes an ask of one command. Its reply is the exit code and all that it printed.
func of(args ...string) func(*world, credentials, target) reply {
	return func(w *world, c credentials, t target) reply {
		var filled []string
		for _, a := range args {
			filled = append(filled, t.fill(a))
		}
		cmd := w.command(c, append(filled, "--server", w.url)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			w.t.Errorf("placet %v: %v", args, err)
		}
		return reply{status: cmd.ProcessState.ExitCode(), body: out.String()}
	}
}

// The columns of commands, by the role that a command wants.
var (
	asProposer = who{"owner", "owner without scopes", "other principal", "other tenant", "other agent", "owner expired",
		"owner for another server", "owner's token for answering", "orchestrator's key", "nobody"}
	asAnswerer = who{"approver", "approver of the other tenant", "approver's token for proposing", "owner's token for answering",
		"other principal", "other tenant", "approver expired", "approver for another server", "approver with a key", "nobody"}
	asOperator = who{"operator", "operator of the other tenant", "operator's token for proposing", "reader", "approver", "owner",
		"other tenant", "operator expired", "operator for another server", "operator with a key", "nobody"}
	asReader = the(asProposer, who{"reader", "reader of the other tenant"})
)

func commands() []row {
	listing := door{viewing.unknown, the(viewing.forbidden, persons)}
	elses := the(proposers, strangers).but(mine...)
	two, poor := who{"owner", "owner with a vouching key"}, who{"owner without scopes"}
	// An answer needs the question first. Who may look at it and not answer it is
	// told so; to the others there is none.
	replying := door{viewing.unknown, viewing.forbidden}
	return []row{
		{name: "calls list", door: listing, object: done, ask: of("calls", "list", "--limit", "500"), may: seers, own: elses, done: only(seers, theCall), unlike: true, columns: asReader},
		{name: "calls show", door: viewing, object: asked, ask: of("calls", "show", "{call}"), may: the(seers, who{"approver"}), done: theCall, columns: asReader},
		{name: "calls propose", door: proposing, object: asked, ask: of("calls", "propose", "act", "--run", "{run}", "--arguments", `{"id":"{marker}"}`),
			may: two, lacks: poor, done: effect, columns: asProposer},
		{name: "calls dispatch", door: proposing, object: approved, ask: of("calls", "dispatch", "{call}", "--wait", "1s"), may: two, lacks: poor, decides: true, done: ran, columns: asProposer},
		{name: "calls cancel", door: proposing, object: asked, ask: of("calls", "cancel", "{call}"), may: mine, done: became("canceled"), columns: asProposer},
		{name: "calls reconcile --look", door: operating, object: unsettled, ask: of("calls", "reconcile", "{call}", "--look"), may: who{"operator"}, done: became("unknown"), columns: asOperator},
		{name: "calls reconcile", door: operating, object: unsettled, ask: of("calls", "reconcile", "{call}", "--outcome", "succeeded", "--evidence", "the desk's book"),
			may: who{"operator"}, done: became("succeeded"), columns: asOperator},
		{name: "calls redact", door: operating, object: done, ask: of("calls", "redact", "{call}", "--reason", "asked for"), may: who{"operator"}, done: became("succeeded"), columns: asOperator},
		{name: "runs list", door: listing, object: asked, ask: of("runs", "list", "--limit", "500"), may: seers, own: elses, done: only(seers, theRun), unlike: true, columns: asReader},
		{name: "runs show", door: viewing, object: asked, ask: of("runs", "show", "{run}"), may: seers, done: theRun, columns: asReader},
		{name: "runs end", door: proposing, object: asked, ask: of("runs", "end", "{run}"), may: mine, done: became("canceled"), columns: asProposer},
		{name: "runs child", door: proposing, object: asked, may: two, lacks: poor, done: theRun, columns: asProposer,
			ask: of("runs", "child", "{run}", "--agent", "rover", "--tools", "act", "--calls", "1")},
		{name: "runs transfer", door: proposing, object: vouched, may: mine, done: became("canceled"), columns: asProposer,
			ask: of("runs", "transfer", "{run}", "--issuer", "urn:placet:dev", "--subject", "carla", "--agent", "bot")},
		{name: "runs delegate", door: proposing, object: asked, ask: of("runs", "delegate", "{run}"), lacks: mine, columns: asProposer},
		{name: "runs withdraw", door: proposing, object: asked, ask: of("runs", "withdraw", "{run}"), lacks: mine, columns: asProposer},
		{name: "runs held", door: reading, object: asked, ask: of("runs", "held"), own: the(readers, strangers), columns: asOperator},
		{name: "runs lift", door: operating, object: asked, ask: of("runs", "lift", "{run}", "--reason", "looked at"), lacks: who{"operator"}, columns: asOperator},
		{name: "revoke target", door: operating, object: asked, ask: of("revoke", "run:{run}", "--reason", "looked at"), may: who{"operator"}, done: became("revoked"), columns: asOperator},
		{name: "revoke list", door: reading, object: stopped, ask: of("revoke", "list", "--limit", "500"), may: readers, own: strangers, unlike: true, columns: asOperator},
		{name: "revoke show", door: reading, object: stopped, ask: of("revoke", "show", "{revocation}"), may: readers, done: theRevocation, columns: asOperator},
		{name: "approvals list", door: viewing, object: asked, ask: of("approvals", "list", "--limit", "500"), may: the(seers, who{"approver"}),
			own: the(proposers, persons, strangers).but(append(mine, "approver")...), done: only(the(seers, who{"approver"}), theApproval), unlike: true, columns: the(asReader, asAnswerer)},
		{name: "approvals show", door: viewing, object: asked, ask: of("approvals", "show", "{approval}"), may: the(seers, who{"approver"}), done: theCall, columns: the(asReader, asAnswerer)},
		{name: "approvals approve", door: replying, object: asked, ask: of("approvals", "approve", "{approval}", "--binding", "{binding}"), may: who{"approver"}, lacks: seers,
			done: isApproved, columns: the(asAnswerer, who{"owner", "reader"})},
		{name: "approvals reject", door: replying, object: asked, ask: of("approvals", "reject", "{approval}", "--binding", "{binding}"), may: who{"approver"}, lacks: seers,
			done: became("denied"), columns: the(asAnswerer, who{"owner", "reader"})},
		{name: "approvals void", door: operating, object: approved, ask: of("approvals", "void", "--person", "lena@urn:placet:dev", "--reason", "left"),
			may: who{"operator"}, own: who{"operator of the other tenant"}, done: isVoid, unlike: true, columns: asOperator},
		{name: "approvals evidence", door: viewing, object: asked, ask: of("approvals", "evidence", "{approval}"), lacks: the(readers, who{"approver"}), columns: the(asReader, asAnswerer)},
		{name: "passkeys revoke", door: operating, object: asked, ask: of("passkeys", "revoke", "lena", "--issuer", "urn:placet:dev"),
			own: who{"operator", "operator of the other tenant"}, unlike: true, columns: asOperator},
		{name: "explain", door: proposing, object: asked, ask: of("explain", "act", "--run", "{run}", "--arguments", `{"id":"n"}`), may: mine, columns: asProposer},
		{name: "audit tail", door: door{viewing.unknown, the(viewing.forbidden, proposers, persons)}, object: asked, ask: of("audit", "tail"), may: readers, own: strangers,
			done: only(readers, theCall), unlike: true, columns: the(asOperator, who{"reader of the other tenant"})},
		{name: "audit tail of a call", door: viewing, object: asked, ask: of("audit", "tail", "--call", "{call}"), may: the(seers, who{"approver"}), own: strangers,
			done: only(the(seers, who{"approver"}), theCall), columns: asReader},
		{name: "policy versions", door: reading, object: asked, ask: of("policy", "versions"), own: the(readers, strangers), unlike: true, columns: asOperator},
		{name: "policy activate", door: operating, object: asked, ask: of("policy", "activate", "--generation", "1", "--plan"),
			own: who{"operator", "operator of the other tenant"}, unlike: true, columns: asOperator},
		{name: "policy report", door: reading, object: done, ask: of("policy", "report"), may: readers, own: strangers, unlike: true, columns: asOperator},
		{name: "policy diff", door: operating, object: done, ask: of("policy", "diff", "1", "active"),
			may: who{"operator"}, own: who{"operator of the other tenant"}, unlike: true, columns: asOperator},
		{name: "audit export", door: reading, object: provable, ask: of("audit", "export"), may: readers, own: strangers, done: only(readers, theCall), unlike: true, columns: asOperator},
		{name: "audit receipt", door: reading, object: provable, ask: of("audit", "receipt", "{call}"), may: readers, done: theCall, columns: asOperator},
		{name: "audit checkpoint", door: reading, object: provable, ask: of("audit", "checkpoint"), own: the(readers, strangers), unlike: true, columns: asOperator},
		{name: "overrides", door: reading, object: asked, ask: of("overrides"), own: the(readers, strangers), columns: asOperator},
		{name: "reload", door: operating, object: asked, ask: of("reload"), own: who{"operator", "operator of the other tenant"}, columns: asOperator},
	}
}
