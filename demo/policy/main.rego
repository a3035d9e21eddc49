# The demo's policy. It denies what it does not name. The amount of a refund is
# not judged here: tools.yaml lets 200 pass without a question.
package agent.call

import rego.v1

default decision := {
	"decision": "deny",
	"reason": "no rule for this tool",
	"instead": "Use a tool from your current list; if none fits, tell the user which step cannot be done here.",
}

decision := {"decision": "allow"} if input.tool.name in {"db_query", "read_chat", "read_ticket"}

decision := {"decision": "allow"} if {
	input.tool.name in {"stripe_refund", "issue_refund"}
	euro
}

decision := {
	"decision": "requires-approval",
	"reason": "refund in another currency than EUR",
} if {
	input.tool.name in {"stripe_refund", "issue_refund"}
	not euro
}

decision := {"decision": "allow"} if {
	input.tool.name == "http_post"
	readable
	not private
}

decision := {
	"decision": "deny",
	"reason": "private net, use proxy",
	"instead": "Use the proxy tool, or ask the user for a public link.",
} if {
	input.tool.name == "http_post"
	private
}

decision := {
	"decision": "deny",
	"reason": "this host cannot be read in one way only",
	"instead": "Write the host as a plain name or as four decimal numbers.",
} if {
	input.tool.name == "http_post"
	not readable
}

euro if input.args.currency == "EUR"

private if {
	some range in {"10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"}
	net.cidr_contains(range, address)
}

# A host is judged only if it is a dotted name or an address in its usual form.
# Others (0x0a000407, 10.0.4.7., 167773191) mean different things to different
# programs and are denied, as is a call without a host.
readable if address

readable if regex.match(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`, input.args.host)

address := input.args.host if {
	regex.match(`^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$`, input.args.host)
}
