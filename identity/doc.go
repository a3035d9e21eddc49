// Package identity says who is calling, who is answering and who operates.
//
// It promises that an identity comes from a verified token, key or certificate and from
// nothing else that a caller can write: a [Caller], a [Person] and an [Operator]
// are made only here, their zero values are nobody, and what is not understood
// is refused. Whoever may propose cannot answer with the same token, and whoever
// answers cannot propose with it (rule D4).
//
// Per issuer the operator states which keys, algorithms, audiences, types and
// tenants count. Nothing of these is taken from the token. Groups and principals
// carry their issuer everywhere (rule I1).
//
// It may import record, canon, go-jose, go-spiffe and the standard library.
package identity
