// Package credential makes what calls carry to tool servers. So far that is the
// dispatch token: a signed statement, for one server and a minute at most, of
// which call Placet dispatches for whom. Package verify checks it at the other end.
//
// It promises that a token is for one audience, one tool and one text of
// arguments; that it ends no later than the attempt's lease (rule E5); that no two
// tokens have one ID; that its key lies in a file that only its owner can read, and
// is replaced every day, with the next key published before it signs and the last
// one after it stopped. It promises that nothing a caller sent, and no credential
// of a caller's, is in a token, but for the values of declared targets.
//
// It may import record, canon, go-jose and the standard library.
package credential
