// Package ingress bounds how many requests one credential sends, before anything is
// decided about them (rule J3).
//
// It promises that a caller within its rate is never refused, that what one caller
// sends takes nothing from another's rate, that what is remembered of callers is
// bounded, and that refusals are told once for each caller and window, with their
// number: a flood of requests is no flood of events.
//
// It may import identity and record.
package ingress
