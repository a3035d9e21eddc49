package history

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Format names how a transcript is written.
type Format string

// The formats that are read. [Writes] says which are written.
const (
	Chat       Format = "openai-chat"
	Responses  Format = "openai-responses"
	Messages   Format = "anthropic-messages"
	UI         Format = "ai-sdk-ui"
	Model      Format = "ai-sdk-model"
	Gemini     Format = "gemini"
	LangChain  Format = "langchain"
	AGUI       Format = "ag-ui"
	AGUIEvents Format = "ag-ui-events"
	Sampling   Format = "mcp-sampling"
	Bedrock    Format = "bedrock-converse"
	Mistral    Format = "mistral"
	A2A        Format = "a2a"
	ADK        Format = "adk"
)

// Kind is what an item claims to be.
type Kind string

const (
	User             Kind = "user"
	Assistant        Kind = "assistant"
	System           Kind = "system"
	Reasoning        Kind = "reasoning"
	Call             Kind = "call"
	Result           Kind = "result"
	ApprovalRequest  Kind = "approval_request"
	ApprovalResponse Kind = "approval_response"
	Reference        Kind = "reference" // to history that the provider keeps and this reader does not see
	Marker           Kind = "marker"    // known to the format and without content, such as the start of a step
	Unknown          Kind = "unknown"
)

// Position is where something stands in the source.
type Position struct {
	Offset  int64  `json:"offset"`  // of the first byte
	End     int64  `json:"end"`     // after the last byte
	Pointer string `json:"pointer"` // RFC 6901
}

// Item is one thing a transcript says. Several items can share a position: one
// tool part of an AI SDK message is a call, a request, an answer and a result.
type Item struct {
	Index   int
	Message int // the message that holds it
	At      Position
	Kind    Kind
	Type    string // as the format names it
	Role    string // of its message
	Raw     []byte // the item's bytes

	ID      string // the label that pairs call and result; a label, never an identity
	HasID   bool   // whether the source has one, empty or not
	ItemID  string // the format's second ID, where it has one
	Tool    string
	Server  string // label of an MCP server that the provider calls
	State   string // of a tool part, where the format has one
	Request string // the approval an item asks for, answers or names

	Arguments []byte       // of a call, as written: JSON, or what a string of JSON held
	Content   []byte       // JSON: what a message, result or answer says
	Digest    canon.Digest // of a call's canonical arguments, or of a result's content; zero if there is none
	Bad       string       // why arguments have no digest

	Approved   bool // an answer's
	Failed     bool // a result says that the call failed
	Provider   bool // the provider runs the tool; the client has nothing to run
	Incomplete bool // the arguments were still being written
	Signed     bool // carries a provider's signature
	Again      bool // a second spelling of a call that the same message already holds

	part   int    // place in the list that holds it; -1: the message is the item
	member string // the list
}

// Message is what a format's list holds one by one: a message, a turn or an item.
type Message struct {
	Index int
	At    Position
	Role  string
	Raw   []byte // valid until the next call of Next; kept by Read
	Items []Item
	Notes []Finding // of decoding: members and parts that the format does not know
}

// argumentsDigest is the digest of a call's arguments as it was proposed.
func argumentsDigest(canonical []byte) canon.Digest {
	return record.ArgumentDigest(canonical, nil)
}

// ResultDigest is the digest of a result that is one text, which is how the
// formats spell most of them. A store computes the same of what it returned.
func ResultDigest(text []byte) canon.Digest {
	return canon.Of("placet/history/text/1", text)
}

// TextDigest is the digest of what a user or the model said.
func TextDigest(text string) canon.Digest { return ResultDigest([]byte(text)) }

// contentDigest is [ResultDigest] of a content that is one text, in whichever of
// the formats' spellings, and the digest of its bytes otherwise.
func contentDigest(content []byte) canon.Digest {
	if len(content) == 0 {
		return canon.Digest{}
	}
	if text, ok := oneText(content); ok {
		return ResultDigest(text)
	}
	return canon.Of("placet/history/content/1", content)
}

// oneText is the text of a string, of a block with a text, of a list of exactly
// one, or of the wrappers {type: text, value} and {output} around one.
func oneText(content []byte) ([]byte, bool) {
	switch {
	case len(content) == 0:
		return nil, false
	case content[0] == '"':
		return unquote(content), true
	case content[0] == '[':
		var only []byte
		n := 0
		for _, e := range elements(content) {
			only, n = e, n+1
			if n > 1 {
				return nil, false
			}
		}
		if n == 1 && only[0] != '[' {
			return oneText(only)
		}
	case content[0] == '{':
		if t := find(content, "text"); len(t) > 0 && t[0] == '"' {
			return unquote(t), true
		}
		if string(unquote(find(content, "type"))) == "text" {
			if v := find(content, "value"); len(v) > 0 && v[0] == '"' {
				return unquote(v), true
			}
		}
		if v := find(content, "output"); len(v) > 0 && v[0] == '"' && count(content) == 1 {
			return unquote(v), true
		}
	}
	return nil, false
}

// Text is what an item says, for showing and for writing in another format:
// strings as they are, texts of blocks joined by line feeds, anything else as JSON.
func (i *Item) Text() string {
	if text, ok := oneText(i.Content); ok {
		return string(text)
	}
	if len(i.Content) == 0 {
		return ""
	}
	if i.Content[0] == '[' {
		var b strings.Builder
		for _, e := range elements(i.Content) {
			text, ok := oneText(e)
			if !ok {
				return string(i.Content)
			}
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.Write(text)
		}
		return b.String()
	}
	return string(i.Content)
}

// Transcript is a history read whole.
type Transcript struct {
	Format   Format
	Source   []byte
	Messages []Message

	list    [2]int // where the messages stand in Source, without the brackets
	system  []Item // said outside the list
	outside []Item // references and answers outside the list
	notes   []Finding
}

// Items yields all items in order.
func (t *Transcript) Items(yield func(*Item) bool) {
	for m := range t.Messages {
		for i := range t.Messages[m].Items {
			if !yield(&t.Messages[m].Items[i]) {
				return
			}
		}
	}
}

// quote is s as JSON. What is not UTF-8 has no spelling and becomes a replacement.
func quote(s string) []byte {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\ufffd"))
	}
	return out
}

// Error says why a transcript cannot be read on. It holds no value of the text.
type Error struct {
	Code string
	At   Position
	Why  string
}

func (e *Error) Error() string { return e.Why }

// invalid is for what the caller has to name or change.
func invalid(format string, args ...any) error {
	return record.Errorf(record.Invalid, format, args...)
}
