package rego

import (
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

var errUndefined = errors.New("the policy is undefined for this call")

// answerOf reads a result: an object or a plain outcome. Anything else is an
// error, and so is a member that is not known, for it may have been meant as a
// condition.
func answerOf(t *ast.Term) policy.Opinion {
	if t == nil {
		return policy.Opinion{Err: errUndefined}
	}
	var o policy.Opinion
	switch v := t.Value.(type) {
	case ast.String:
		o.Verdict, o.Err = verdict(t)
	case ast.Object:
		o.Err = readAnswer(v, &o)
	default:
		o.Err = fmt.Errorf("the result is %s, neither an object nor an outcome", ast.ValueName(v))
	}
	if o.Err != nil {
		o = policy.Opinion{Err: o.Err}
	}
	return o
}

func readAnswer(answer ast.Object, o *policy.Opinion) error {
	err := answer.Iter(func(k, v *ast.Term) (err error) {
		switch name, _ := k.Value.(ast.String); name {
		case "decision":
			o.Verdict, err = verdict(v)
		case "reason":
			o.Reason.Public, err = textOf("reason", v)
		case "private":
			o.Reason.Private, err = textOf("private", v)
		case "instead":
			o.Reason.Instead, err = textOf("instead", v)
		case "approval":
			o.Ask, err = askOf(v)
		case "obligations":
			o.Obligations, err = textsOf("obligations", v)
		default:
			err = fmt.Errorf("the result has an unknown member %.40s", k)
		}
		return err
	})
	if err == nil && o.Verdict == "" {
		return errors.New("the result has no decision")
	}
	return err
}

func verdict(t *ast.Term) (record.Verdict, error) {
	s, ok := t.Value.(ast.String)
	if !ok {
		return "", fmt.Errorf("the decision is %s, not a string", ast.ValueName(t.Value))
	}
	switch v := record.Verdict(s); v {
	case record.Allow, record.Deny, record.RequiresApproval:
		return v, nil
	default:
		return "", fmt.Errorf("%.40q is not a decision: allow, deny or requires-approval", string(s))
	}
}

func askOf(t *ast.Term) (*policy.Ask, error) {
	object, ok := t.Value.(ast.Object)
	if !ok {
		return nil, fmt.Errorf("approval is %s, not an object", ast.ValueName(t.Value))
	}
	ask := &policy.Ask{}
	return ask, object.Iter(func(k, v *ast.Term) (err error) {
		switch name, _ := k.Value.(ast.String); name {
		case "approvers":
			ask.Approvers, err = textsOf("approval.approvers", v)
		case "quorum":
			n, ok := v.Value.(ast.Number)
			q, whole := n.Int()
			if !ok || !whole || q < 1 || q > 100 {
				return errors.New("approval.quorum is not a whole number from 1 to 100")
			}
			ask.Quorum = q
		case "expires":
			s, err := textOf("approval.expires", v)
			if err != nil {
				return err
			}
			if ask.Expires, err = time.ParseDuration(s); err != nil || ask.Expires <= 0 {
				return errors.New(`approval.expires is not a duration such as "2h"`)
			}
		case "self":
			b, ok := v.Value.(ast.Boolean)
			if !ok {
				return errors.New("approval.self is neither true nor false")
			}
			ask.Self = bool(b)
		case "purpose":
			ask.Purpose, err = required("approval.purpose", v)
		case "reason":
			ask.Reason, err = required("approval.reason", v)
		case "passkey":
			b, ok := v.Value.(ast.Boolean)
			if !ok {
				return errors.New("approval.passkey is neither true nor false")
			}
			ask.Passkey = bool(b)
		default:
			err = fmt.Errorf("approval has an unknown member %.40s", k)
		}
		return err
	})
}

// required reads the one word that a demand is stated by.
func required(what string, t *ast.Term) (bool, error) {
	if s, ok := t.Value.(ast.String); !ok || s != "required" {
		return false, errors.New(what + ` is not "required"`)
	}
	return true, nil
}

func textOf(what string, t *ast.Term) (string, error) {
	s, ok := t.Value.(ast.String)
	if !ok {
		return "", fmt.Errorf("%s is %s, not a string", what, ast.ValueName(t.Value))
	}
	return string(s), nil
}

// textsOf reads an array or a set of strings.
func textsOf(what string, t *ast.Term) ([]string, error) {
	var out []string
	add := func(item *ast.Term) error {
		s, err := textOf("an item of "+what, item)
		out = append(out, s)
		return err
	}
	switch v := t.Value.(type) {
	case *ast.Array:
		return out, v.Iter(add)
	case ast.Set:
		return out, v.Iter(add)
	default:
		return nil, fmt.Errorf("%s is %s, not a list", what, ast.ValueName(t.Value))
	}
}
