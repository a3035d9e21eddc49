package registry

import (
	"errors"
	"strings"
	"testing"
)

// A pinned command that would run something else now, or of which nothing is
// known, is quarantined, and says why.
func TestMeasuredCommandMustBeThePinnedOne(t *testing.T) {
	const file = "version: 1\nservers:\n  files: {command: [npx, files@1.2.3]}\n  desk: {url: \"https://desk.example.com\"}\n" +
		"tools:\n  read: {server: files, scope: a, read: true}\n"
	lock := NewLock()
	pinned := ServerPin{Package: "files", Version: "1.2.3", Integrity: "sha512-AAAA"}
	lock.Servers["files"] = pinned
	pin, err := PinOf(Offer{Name: "read", InputSchema: []byte(`{"type":"object"}`)})
	if err != nil {
		t.Fatal(err)
	}
	lock.Tools["read"] = LockedTool{Server: "files", Pin: pin}
	text, err := lock.Write()
	if err != nil {
		t.Fatal(err)
	}
	other := pinned
	other.Integrity = "sha512-BBBB"
	for _, c := range []struct {
		name     string
		measured ServerPin
		err      error
		why      string // "": callable
	}{
		{"the same", pinned, nil, ""},
		{"another hash", other, nil, "has another integrity hash than the one pinned for files 1.2.3"},
		{"not known", ServerPin{}, errors.New("npm is not installed here"), "cannot be measured: npm is not installed here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			s, err := Parse([]Source{{Name: "tools.yaml", Text: []byte(file), Lock: text}}, Options{
				Measure: func(command []string) (ServerPin, error) {
					asked++
					if command[0] != "npx" {
						t.Errorf("asked of %q", command)
					}
					return c.measured, c.err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if asked != 1 {
				t.Errorf("asked %d times: once for the command, never for the URL", asked)
			}
			_, callable := s.Tool("read")
			if callable != (c.why == "") {
				t.Errorf("callable: %v", callable)
			}
			if q := s.Quarantined(); c.why != "" && (len(q) != 1 || !strings.Contains(q[0].Reason, c.why)) {
				t.Errorf("quarantined %+v, want %q", q, c.why)
			}
		})
	}
}
