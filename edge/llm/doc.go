// Package llm is the front door to model providers: it passes requests on to the
// APIs of OpenAI, Anthropic and Gemini, and sees what the model says.
//
// It promises that a tool call counts as witnessed only if this door saw a model
// emit it in a completed answer, in the run and turn of the verified caller who
// asked (rules G1 to G3), and that it is recorded before the client could act on
// it. What is sent to the provider is the bytes that were checked, and what the
// client reads is the bytes that the provider sent. The provider's key is put in
// here: no caller ever has it, and the provider never gets the caller's own. Of
// what is asked and answered only digests are kept. Whatever cannot be read,
// decided or recorded is not sent.
//
// A request passes, in this order: who is calling (identify.go), size and one
// strict decode (request.go, and a file for each API), what it offers the provider
// to run and what it names there (rule G1), its history (history.go), the run and
// turn (door.go). An answer is passed on by pass.go; what it says is put together
// by the reader of its API (chat.go, responses.go, messages.go, gemini.go).
//
// It may import canon, record, label, identity, history, dispatch and edge/oauth. It knows no store.
package llm
