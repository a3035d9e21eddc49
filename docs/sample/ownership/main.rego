# Orders belong to people. Whoever owns every order that a call names may go on;
# orders that a colleague shares need a person's yes; anything else is refused.
package agent.call

orders := {t.value | some t in input.targets; t.kind == "order"}

same(who) if {
	who.issuer == input.principal.issuer
	who.id == input.principal.id
}

in_tenant(id) if data.orders[id].tenant == input.principal.tenant

owned(id) if {
	in_tenant(id)
	same(data.orders[id].owner)
}

shared(id) if {
	in_tenant(id)
	some who in data.orders[id].shared_with
	same(who)
}

visible(id) if owned(id)

visible(id) if shared(id)

decision := "allow" if {
	count(orders) > 0
	every id in orders { owned(id) }
} else := {"decision": "requires-approval", "reason": "the order is a colleague's, who shares it"} if {
	count(orders) > 0
	every id in orders { visible(id) }
} else := {"decision": "deny", "reason": "no such order is this user's; ask the user which one they mean"}
