// Package http makes tools of HTTP operations that the operator wrote down.
//
// It promises that method, host and path are the file's: arguments go to the places
// declared for them and cannot leave those. It promises that a request is sent once,
// to an address that was checked when it was connected to; that no proxy and no
// redirect takes it elsewhere; and that [dispatch.Reached].Sent is false only if no
// byte of it left this process. Of an answer only declared fields come back, numbers
// as they were written; headers and everything undeclared stay here.
//
// It may import canon, dispatch, guard, mcphttp, record, registry, tool/local,
// yamlfile, the standard library and jsontext.
package http
