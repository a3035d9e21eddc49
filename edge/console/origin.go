package console

import (
	"slices"
	"strings"

	"github.com/placet-dev/placet/record"
)

// origin is where an argument's values come from, for the approver.
type origin struct {
	Argument string
	Text     string
	Warn     bool // it does not come from the user or the operator
	Call     record.CallID
}

// originsOf says of each argument where its values come from, once for each place.
func originsOf(c record.Call) []origin {
	var out []origin
	for _, o := range c.Decision.Origins {
		x := origin{Argument: o.Argument, Text: originText(o), Warn: !o.Trusted, Call: o.Call}
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

func originText(o record.Origin) string {
	from := map[record.ValueOrigin]string{
		record.FromUser:     "from the user's own request",
		record.FromOperator: "stated by the operator",
		record.FromSelected: "from a record that the user's request selects",
		record.FromLabelled: "from text outside that the agent read, not from the user",
		record.FromUnknown:  "neither from the user nor from anything the agent was seen to read",
	}[o.From]
	if o.Target || o.Kind == "name" {
		return from
	}
	what := map[string]string{"url": "a link", "email": "a mail address", "account": "an account", "phone": "a number", "file": "a file name",
		"address": "a machine's address", "value": "a value of a result that must not get out"}[o.Kind]
	if what == "" {
		what = "something"
	}
	if o.Hidden {
		what += ", written so that it is hard to see"
	}
	return "holds " + what + ": " + from
}

// readText says what the labels of the agent's conversation say that it had read when
// it asked. A tool whose results are not marked brings none.
func readText(labels []string) string {
	var out []string
	if slices.Contains(labels, "untrusted") {
		out = append(out, "It had read text from outside.")
	}
	if slices.Contains(labels, "sensitive") {
		out = append(out, "It had read sensitive data.")
	}
	if len(out) == 0 {
		out = append(out, "Nothing that it read is marked as from outside or as sensitive.")
	}
	var classes []string
	for _, l := range labels {
		if class, ok := strings.CutPrefix(l, "class:"); ok {
			classes = append(classes, class)
		}
	}
	if len(classes) > 0 {
		out = append(out, "Data classes: "+strings.Join(classes, ", ")+".")
	}
	return strings.Join(out, " ")
}
