package history

import (
	"fmt"
	"maps"
	"slices"
)

// Severity says how much a finding weighs.
type Severity string

const (
	Forgery   Severity = "forgery"   // no honest client sends this
	Violation Severity = "violation" // breaks the format, or claims what a history cannot show; honest clients do it after cuts and crashes
	Note      Severity = "note"      // worth knowing
)

// The codes of findings. They are stable: programs may compare them.
const (
	CodeMalformed           = "malformed"
	CodeDuplicateName       = "duplicate_name"
	CodeTooLarge            = "too_large"
	CodeTooDeep             = "too_deep"
	CodeCaseVariant         = "case_variant"
	CodeUnknownField        = "unknown_field"
	CodeUnknownPart         = "unknown_part"
	CodeUnresolvedCall      = "unresolved_call"
	CodeOrphanResult        = "orphan_result"
	CodeDuplicateCall       = "duplicate_call"
	CodeConflictingCall     = "conflicting_call"
	CodeDuplicateResult     = "duplicate_result"
	CodeConflictingResult   = "conflicting_result"
	CodeReordered           = "reordered"
	CodeSplicedResult       = "spliced_result"
	CodeSplicedRuns         = "spliced_runs"
	CodeDroppedCancellation = "dropped_cancellation"
	CodeEditedArguments     = "edited_arguments"
	CodeEditedResult        = "edited_result"
	CodeInvalidArguments    = "invalid_arguments"
	CodeUnaskedApproval     = "approval_without_request"
	CodeUnaskedAnswer       = "unasked_answer"
	CodeOpenApproval        = "open_approval"
	CodeApproval            = "approval_in_history"
	CodeConflictingAnswer   = "conflicting_answer"
	CodeRepeatedAnswer      = "repeated_answer"
	CodeEmptyID             = "empty_id"
	CodeMissingID           = "missing_id"
	CodeReusedID            = "reused_id"
	CodeIllegalID           = "illegal_id"
	CodeForeignRole         = "call_in_foreign_role"
	CodeResultInForeignRole = "result_in_foreign_role"
	CodeTextBetween         = "text_between"
	CodeForeignSignature    = "foreign_signature"
	CodeUnseen              = "unseen_history"
	CodeIncompleteCall      = "incomplete_call"
)

// meaning is what a code says, and what the thing could have led to.
type meaning struct {
	severity Severity
	says     string
	could    string
}

var meanings = map[string]meaning{
	CodeMalformed:           {Violation, "the text is not strict JSON in this format", "two readers see two histories: one is checked, the other acted on"},
	CodeDuplicateName:       {Forgery, "an object names a member twice", "one reader takes the first value, another the last: what is checked is not what runs"},
	CodeTooLarge:            {Violation, "larger than allowed", "a reader runs out of memory, or cuts the history where it likes"},
	CodeTooDeep:             {Violation, "deeper than allowed", "a reader runs out of stack"},
	CodeCaseVariant:         {Forgery, "a member differs from a known one by case only", "readers that ignore case take it for the known one"},
	CodeUnknownField:        {Note, "a member that the format does not know; it is kept and not interpreted", "a newer reader may give it a meaning"},
	CodeUnknownPart:         {Note, "a part that the format does not know; it is kept and not interpreted", "a newer reader may run it or count it as a result"},
	CodeUnresolvedCall:      {Violation, "a call without a result", "a runtime that continues from the last message runs it, without asking a model"},
	CodeOrphanResult:        {Violation, "a result without a call", "the model takes as done what nobody ran; most providers refuse the request"},
	CodeDuplicateCall:       {Violation, "a call stands twice", "a runtime runs it twice"},
	CodeConflictingCall:     {Violation, "two open calls share an ID and differ", "an approval or a result of one is taken for the other"},
	CodeDuplicateResult:     {Violation, "a result stands twice", "most providers refuse the request; counts of calls and results no longer agree"},
	CodeConflictingResult:   {Violation, "a call has two results that differ", "readers disagree about what happened"},
	CodeReordered:           {Violation, "call and result do not stand in the order or place that the format wants", "a result is taken for another call's; most providers refuse the request"},
	CodeSplicedResult:       {Violation, "a result names another tool than its call", "what one tool returned is taken for what another did"},
	CodeSplicedRuns:         {Forgery, "calls of several runs stand in one history", "what was allowed in one run is taken as allowed in another"},
	CodeDroppedCancellation: {Forgery, "the records say that this call was stopped, and the history does not", "a runtime takes up again what a person or a rule stopped"},
	CodeEditedArguments:     {Forgery, "the arguments are not those that were recorded or asked about", "an approval for one thing is used for another"},
	CodeEditedResult:        {Violation, "the result is not the one that was recorded", "the model acts on what no tool returned"},
	CodeInvalidArguments:    {Violation, "a call that names no tool, or whose arguments are not an object of strict JSON", "a lenient reader makes its own call of it"},
	CodeUnaskedApproval:     {Violation, "a call that names an approval which was not asked for, not given, or used before", "a runtime takes the answer as permission and runs the call"},
	CodeUnaskedAnswer:       {Violation, "an answer to an approval that nobody asked for", "a runtime takes it as permission and runs the call it names"},
	CodeOpenApproval:        {Violation, "a request for approval without an answer", "whoever sends the history next can answer it"},
	CodeApproval:            {Violation, "an answer to an approval, whose call has not run", "a runtime that takes approvals from messages runs the call, each time this is sent"},
	CodeConflictingAnswer:   {Violation, "an approval has two answers that differ", "one runtime runs the call, another refuses it, some do both"},
	CodeRepeatedAnswer:      {Violation, "an approval is answered twice", "a runtime runs the call once for each answer"},
	CodeEmptyID:             {Violation, "an ID is empty", "results are paired by guess, or dropped as if nothing had run"},
	CodeMissingID:           {Violation, "an ID is missing where several calls could be meant", "results are paired by guess"},
	CodeReusedID:            {Violation, "the ID of an earlier call is used again", "the earlier call's result or approval is taken for this one's"},
	CodeIllegalID:           {Note, "the ID has characters or a length that this format refuses", "the provider refuses the request, or an adapter writes another ID"},
	CodeForeignRole:         {Forgery, "a call in a message that is not the model's", "text of a user or a tool is run as if a model had called"},
	CodeResultInForeignRole: {Violation, "a result in a message where the format has none", "what a model or a user made up is taken for what a tool returned"},
	CodeTextBetween:         {Violation, "something stands between a call and its result", "the call counts as given up for one reader and as open for another"},
	CodeForeignSignature:    {Violation, "signed reasoning where this format or role has none", "the provider refuses the request, or takes another model's reasoning as its own"},
	CodeUnseen:              {Note, "refers to history that the provider keeps; it is not checked here", "calls and results that nobody checked are part of the conversation"},
	CodeIncompleteCall:      {Violation, "a call whose arguments were still being written", "a lenient reader completes the arguments and runs the call"},
}

// Explanation is a code with what it says and what the thing could have led to.
type Explanation struct {
	Code     string
	Severity Severity
	Says     string
	Could    string
}

// Codes lists every code, for documents and help, in alphabetical order.
func Codes() []Explanation {
	var out []Explanation
	for _, c := range slices.Sorted(maps.Keys(meanings)) {
		m := meanings[c]
		out = append(out, Explanation{c, m.severity, m.says, m.could})
	}
	return out
}

// Finding is one thing that a check found.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	At       Position `json:"at"`
	Message  int      `json:"message"` // index of the message; -1: outside the list
	Item     int      `json:"item"`    // index of the item; -1: none
	Says     string   `json:"says"`
	Could    string   `json:"could"`
	Detail   string   `json:"detail,omitempty"` // names and IDs of the transcript, quoted; never arguments or content
}

func finding(code string, at Position, format string, args ...any) Finding {
	m := meanings[code]
	at.End = max(at.End, at.Offset)
	f := Finding{Code: code, Severity: m.severity, At: at, Message: -1, Item: -1, Says: m.says, Could: m.could}
	if format != "" {
		f.Detail = fmt.Sprintf(format, args...)
	}
	return f
}
