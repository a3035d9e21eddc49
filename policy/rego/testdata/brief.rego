package agent.call
import rego.v1

# no rule matched: fail closed
default decision := {
  "decision": "deny",
  "reason": "no rule for this call"
}

# ALLOW: reads, any arguments
reads := {"db.query", "git.log"}
decision := {
  "decision": "allow"
} if {
  input.tool.name in reads
}

# DENY: a reason the model reads
decision := {
  "decision": "deny",
  "reason": "private net, use proxy"
} if {
  input.tool.name == "http.post"
  h := input.args.host
  net.cidr_contains("10.0.0.0/8", h)
}

# PAUSE: a human, bound to this call
decision := {
  "decision": "requires-approval",
  "reason": "refund over 500"
} if {
  input.tool.name == "stripe.refund"
  input.args.amount > 500
}
