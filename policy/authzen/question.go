package authzen

import (
	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Entity is a subject or a resource (section 5).
type Entity struct {
	Type       string         `json:"type"`
	ID         string         `json:"id"`
	Properties map[string]any `json:"properties,omitempty"`
}

// Action is what the subject wants to do (section 5).
type Action struct {
	Name       string         `json:"name"`
	Properties map[string]any `json:"properties,omitempty"`
}

// Question is whether a subject may do an action on each of some resources.
type Question struct {
	Subject   Entity
	Action    Action
	Resources []Entity
	Context   map[string]any
}

// mostResources bounds what one question may name.
const mostResources = 100

func (q Question) check() error {
	switch n := len(q.Resources); {
	case n == 0:
		return record.Errorf(record.Invalid, "a question to a decision point names no resource")
	case n > mostResources:
		return record.Errorf(record.Invalid, "a question to a decision point names %d resources, %d at most", n, mostResources)
	}
	for _, e := range append([]Entity{q.Subject}, q.Resources...) {
		if e.Type == "" || e.ID == "" {
			return record.Errorf(record.Invalid, "subjects and resources have a type and an ID, and one of them is empty")
		}
	}
	return nil
}

// single is the body of an access evaluation request (section 6.1).
func (q Question) single(i int) ([]byte, error) {
	return canon.Marshal(struct {
		Subject  Entity         `json:"subject"`
		Action   Action         `json:"action"`
		Resource Entity         `json:"resource"`
		Context  map[string]any `json:"context,omitempty"`
	}{q.Subject, q.Action, q.Resources[i], q.Context})
}

// Semantic is how a decision point goes through several questions (section 7.1.2.1).
// The third that there is, permit_on_first_permit, would answer another question
// than ours, which is whether each resource is allowed.
type Semantic string

const (
	ExecuteAll      Semantic = "execute_all"        // one answer for each
	DenyOnFirstDeny Semantic = "deny_on_first_deny" // none behind the first no
)

// batch is the body of an access evaluations request (section 7.1): subject,
// action and context hold for all, and each evaluation names its resource.
func (q Question) batch(s Semantic) ([]byte, error) {
	type evaluation struct {
		Resource Entity `json:"resource"`
	}
	body := struct {
		Subject     Entity            `json:"subject"`
		Action      Action            `json:"action"`
		Context     map[string]any    `json:"context,omitempty"`
		Evaluations []evaluation      `json:"evaluations"`
		Options     map[string]string `json:"options"`
	}{q.Subject, q.Action, q.Context, nil, map[string]string{"evaluations_semantic": string(s)}}
	for _, r := range q.Resources {
		body.Evaluations = append(body.Evaluations, evaluation{r})
	}
	return canon.Marshal(body)
}
