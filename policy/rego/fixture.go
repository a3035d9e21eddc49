package rego

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/placet-dev/placet/policy"
	"github.com/placet-dev/placet/record"
)

// Fixture is one recorded or imagined call and the verdict it must get.
type Fixture struct {
	Place    string // file and position
	Name     string
	Input    *policy.Input
	Want     record.Verdict
	Recorded record.Verdict // the verdict it got when it was recorded; nothing may be weaker
	// CannotDecide says that the denial is one of a policy that cannot decide,
	// such as a host that is no address.
	CannotDecide bool
}

type fixtureFile struct {
	Name         string          `json:"name"`
	Input        map[string]any  `json:"input"`
	Want         record.Verdict  `json:"want"`
	Recorded     record.Verdict  `json:"recorded"`
	CannotDecide bool            `json:"cannot_decide"`
	Note         json.RawMessage `json:"note"` // for people
}

// Fixtures reads the fixtures in a layer's fixtures directory.
func (f Files) Fixtures() ([]Fixture, error) {
	var out []Fixture
	for _, p := range f.pick(isFixture) {
		some, err := ParseFixtures(p, f[p])
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// ParseFixtures reads one fixtures file, YAML or JSON by its name: a list, or
// one fixture. An input states only what matters; the rest comes from a plain
// call by a member of one tenant. Unknown keys are errors.
func ParseFixtures(name string, text []byte) ([]Fixture, error) {
	v, err := decode(name, text)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "fixtures: %w", err)
	}
	items, ok := v.([]any)
	if !ok {
		items = []any{v}
	}
	out := make([]Fixture, 0, len(items))
	for i, item := range items {
		place := fmt.Sprintf("%s, fixture %d", name, i+1)
		f, err := readFixture(item)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "fixtures: %s: %w", place, err)
		}
		f.Place = place
		out = append(out, f)
	}
	return out, nil
}

func readFixture(item any) (Fixture, error) {
	text, err := json.Marshal(item)
	if err != nil {
		return Fixture{}, err
	}
	var f fixtureFile
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&f); err != nil {
		return Fixture{}, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return Fixture{}, errors.New("text after the fixture")
	}
	switch {
	case f.Name == "":
		return Fixture{}, errors.New("a fixture needs a name")
	case !known(f.Want):
		return Fixture{}, fmt.Errorf("want is %.40q, not allow, deny or requires-approval", string(f.Want))
	case f.Recorded != "" && !known(f.Recorded):
		return Fixture{}, fmt.Errorf("recorded is %.40q, not allow, deny or requires-approval", string(f.Recorded))
	case f.CannotDecide && f.Want != record.Deny:
		return Fixture{}, errors.New("cannot_decide goes with want: deny only")
	}
	in, err := complete(f.Input)
	if err != nil {
		return Fixture{}, err
	}
	return Fixture{Name: f.Name, Input: in, Want: f.Want, Recorded: f.Recorded, CannotDecide: f.CannotDecide}, nil
}

func known(v record.Verdict) bool {
	return v == record.Allow || v == record.Deny || v == record.RequiresApproval
}

// complete lays a partial input over the default one.
func complete(partial map[string]any) (*policy.Input, error) {
	base, err := json.Marshal(defaultInput())
	if err != nil {
		return nil, err
	}
	var whole map[string]any
	dec := json.NewDecoder(bytes.NewReader(base))
	dec.UseNumber()
	if err := dec.Decode(&whole); err != nil {
		return nil, err
	}
	overlay(whole, partial)
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	in := &policy.Input{}
	return in, json.Unmarshal(text, in)
}

func overlay(base, over map[string]any) {
	for k, v := range over {
		b, bok := base[k].(map[string]any)
		o, ook := v.(map[string]any)
		if bok && ook {
			merged := maps.Clone(b)
			overlay(merged, o)
			base[k] = merged
		} else {
			base[k] = v
		}
	}
}

// defaultInput is the call that fixtures start from.
func defaultInput() *policy.Input {
	const issuer = "https://login.example.com"
	return &policy.Input{
		Tool: policy.Tool{Name: "some_tool", Server: "some-server", Version: "sha256:fixture"},
		Args: []byte(`{}`),
		Principal: policy.Principal{
			Principal: record.Principal{Issuer: issuer, Subject: "anna"}, Tenant: "acme", GroupsKnown: true,
		},
		Agent: policy.Agent{ID: "some-agent"},
		Run:   policy.Run{ID: "run_fixture", Turn: 1},
		Call:  policy.Call{ID: "call_fixture", Source: record.Vouched, Route: record.RouteModel},
		Env:   "test",
		Time:  time.Date(2026, 10, 12, 12, 0, 0, 0, time.UTC),
	}
}
