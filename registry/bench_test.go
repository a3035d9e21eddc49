package registry

import (
	"fmt"
	"strings"
	"testing"
)

func manyTools(b *testing.B, n int) []Source {
	var text strings.Builder
	text.WriteString(header)
	pins := map[string]Offer{}
	for i := range n {
		name := fmt.Sprintf("tool_%d", i)
		fmt.Fprintf(&text, "  %s: {server: helpdesk, scope: a, destructive: true, targets: [id], effect: 'Do {id}'}\n", name)
		pins[name] = offer(name, `"id":{"type":"string"},"amount":{"type":"number"}`, "id")
	}
	return []Source{{Name: "tools.yaml", Text: []byte(text.String()), Lock: lockText(b, locked(b, "helpdesk", pins))}}
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		sources := manyTools(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s, err := Parse(sources, Options{})
				if err != nil || s.Len() != n {
					b.Fatal(err)
				}
			}
		})
	}
}
