package dispatch

import "github.com/placet-dev/placet/record"

// Compensation is the tool that undoes a call, as the registry names it, for a call
// that had its effect or may have had it; "" for every other. It is for operators to
// read: nobody proposes it, and it is a call like any other when it comes.
func (a *Active) Compensation(c record.Call) string {
	if a == nil || c.State != record.Succeeded && c.State != record.Unknown {
		return ""
	}
	tool, ok := a.Registry.Tool(c.Tool.Name)
	if !ok {
		return ""
	}
	return tool.Compensate
}
