# The organisation's layer. It starts from allow and adds denials and
# questions; the most restrictive one wins, in this file and across layers.
# Tools that tools.yaml does not name never get here.
#
# A reason is read by the model (deny) or by the approver (requires-approval):
# say what is not possible and, under "instead", what to do.
package agent.call

import rego.v1

default decision := {"decision": "allow"}

decision := object.union({"decision": "deny"}, chosen(denials)) if count(denials) > 0

decision := object.union({"decision": "requires-approval"}, chosen(asks)) if {
	count(denials) == 0
	count(asks) > 0
}

# One denial is enough to say; the first in order, so that it is always the same.
chosen(found) := sort(found)[0]

# Denials. Every rule that is true adds one.

denials contains {
	"reason": "destructive tools are closed outside working hours",
	"instead": "Prepare the change and tell the user to ask again between 07:00 and 19:00 UTC.",
} if {
	input.tool.flags.destructive
	not working_hours
}

denials contains {
	"reason": sprintf("the tool %s is closed to everybody", [input.tool.name]),
	"instead": "Tell the user which step cannot be done here.",
} if {
	input.tool.name in data.closed_tools
}

# Questions for a person.

asks contains {"reason": "money, and the amount is above what policy lets pass"} if {
	input.tool.flags.financial
	some amount in input.amounts # numbers; input.args may hold the same as text
	amount > data.ask_above
}

asks contains {"reason": "data leaves the company after something untrusted was read"} if {
	input.tool.flags.sink
	"untrusted" in input.run.labels
}

working_hours if {
	[hour, _, _] := time.clock(time.parse_rfc3339_ns(input.time))
	hour >= 7
	hour < 19
}
