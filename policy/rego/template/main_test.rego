package agent.call_test

import rego.v1

import data.agent.call

financial := {"flags": {"financial": true, "destructive": false, "sink": false}, "name": "refund"}

test_denial_beats_question if {
	call.decision.decision == "deny" with input as {
		"tool": object.union(financial, {"name": "closed"}),
		"amounts": {"amount": 5000},
		"run": {"labels": []},
		"time": "2026-10-12T12:00:00Z",
	}
		with data.closed_tools as ["closed"]
}

test_limit_itself_passes if {
	call.decision == {"decision": "allow"} with input as {
		"tool": financial,
		"amounts": {"amount": 1000},
		"run": {"labels": []},
		"time": "2026-10-12T12:00:00Z",
	}
}
