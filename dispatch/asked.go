package dispatch

import (
	"github.com/placet-dev/placet/record"
)

// AskedQuery selects questions of one tenant that a person may answer, newest first.
type AskedQuery struct {
	Tenant record.TenantID
	Person record.Principal
	Groups []record.Group
	States []record.ApprovalState // at least one
	Run    record.RunID           // only of this run; then those that wait, whatever States says
	Tool   string                 // only of this tool, whatever the case of its letters; "": of any
	For    string                 // only for this subject, likewise
	Agent  string                 // only of this agent, likewise
	After  record.ApprovalID      // for the next page
	Limit  int                    // 1 to 500; 0 is 50
}

// Asked is a page of an AskedQuery.
type Asked struct {
	Found []Loaded
	Next  record.ApprovalID // where another page begins, although this one may be short; "": there is none
}

// ApprovedQuery selects the newest call of a tool that people approved.
type ApprovedQuery struct {
	Owner  record.Owner
	Tool   string
	Before record.CallID
}
