// Package console serves the pages that approvers open from links.
//
// So far it is one page: what a link to a question leads to. It shows nothing of
// the question, asks for no login, and answers nothing; it says how to answer in
// a terminal or over the API. It promises strict headers and no script.
//
// It may import record and the standard library.
package console
