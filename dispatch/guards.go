package dispatch

import (
	"bytes"
	"context"

	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
)

// normalise puts a new call's arguments into the normal form of the entry's guards:
// from here on that form is what is decided, digested, shown and sent. What was
// proposed keeps a digest of its own (rule G3). A refusal is not said here: step 5
// meets it again, behind what comes first.
func (e *evaluation) normalise(t *registry.Tool) {
	out, refusal := t.AcceptArguments(e.call.Arguments, e.call.Owner)
	if refusal != nil || bytes.Equal(out, e.call.Arguments) {
		return
	}
	e.call.Received = e.call.Digest
	e.call.Arguments = out
	e.call.Digest = record.ArgumentDigest(out, e.call.Input)
}

// checkGuards is the second half of step 5: what the arguments mean, after what
// they look like. It is asked at every decision, since names are given to other
// addresses and links to other folders meanwhile.
func (e *evaluation) checkGuards(ctx context.Context) bool {
	if len(e.tool.Guards) == 0 {
		return true
	}
	out, refusal := e.tool.AcceptArguments(e.call.Arguments, e.call.Owner)
	if refusal == nil && !bytes.Equal(out, e.call.Arguments) {
		// The guards are others than when this call was proposed; what it would run with
		// now is not what was decided and shown.
		return e.say(record.Reason{Rule: "registry guards", Place: e.tool.Place, Verdict: record.Deny, Code: record.CodeGuardRefused,
			Public: "the rules for it have changed since this call was proposed; propose it again", Instead: e.tool.Instead})
	}
	if refusal == nil && !e.dry {
		refusal = e.tool.ExamineArguments(ctx, e.call.Arguments, e.call.Owner, e.b.world)
	}
	if refusal != nil {
		return e.say(e.refused(refusal))
	}
	return true
}

// refused is a guard's no as a reason. It names argument and rule, never a value.
func (e *evaluation) refused(r *guard.Refusal) record.Reason {
	return record.Reason{Rule: "guard " + string(r.Type) + " on " + e.tool.Name + "." + r.Argument, Place: e.tool.Place, Verdict: record.Deny,
		Code: r.Code, Public: r.Error(), Private: r.Private, Instead: r.Instead}
}
