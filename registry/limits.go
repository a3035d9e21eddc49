package registry

import (
	"regexp"
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// Decimal is an exact decimal of a configuration file.
type Decimal = yamlfile.Decimal

// ParseDecimal reads a decimal as a file would give it.
func ParseDecimal(text string) (Decimal, error) { return yamlfile.ParseDecimal(text) }

// LimitEntry is an autonomous limit.
type LimitEntry struct {
	Argument  string        `yaml:"argument,required" doc:"The argument that holds the amount."`
	Max       Decimal       `yaml:"max,required" doc:"The greatest amount that needs no question."`
	PerTarget Decimal       `yaml:"per_target" doc:"The greatest sum for the same targets, of one principal, that needs no question."`
	Count     int           `yaml:"count" doc:"How many calls of one principal need no question; 0 means no limit of its own."`
	Within    time.Duration `yaml:"within" default:"24h" doc:"Over how long per_target and count are counted."`
}

// CostEntry is what a call costs: a price, an amount among its arguments, or what
// its result reports.
type CostEntry struct {
	Price    Decimal `yaml:"price" doc:"What each call costs."`
	Argument string  `yaml:"argument" doc:"The argument that holds what the call costs."`
	Result   string  `yaml:"result" doc:"Where the result's structured content reports the cost, such as usage.cost; needs most."`
	Most     Decimal `yaml:"most" doc:"What is held until the result has reported."`
	Currency string  `yaml:"currency,required" doc:"Three capital letters, or {argument} for the argument that holds them."`
}

// Limit is what a tool may do without a question.
type Limit struct {
	Argument  string
	Max       Decimal
	PerTarget Decimal // no value: no limit of its own
	Count     int     // 0: no limit of its own
	Within    time.Duration
}

// Cost is what a call costs. One of Price, Argument and Result is given.
type Cost struct {
	Price    Decimal
	Argument string
	Result   []string // members of the structured content, outermost first
	Most     Decimal  // with Result
	Currency string   // a constant, or
	Holds    string   // the argument that holds it
}

// String says what a call costs, for people.
func (c *Cost) String() string {
	if c == nil {
		return "not stated"
	}
	currency := c.Currency
	if c.Holds != "" {
		currency = "{" + c.Holds + "}"
	}
	switch {
	case c.Argument != "":
		return "{" + c.Argument + "} " + currency
	case len(c.Result) > 0:
		return "what " + strings.Join(c.Result, ".") + " of the result reports, at most " + c.Most.String() + " " + currency
	}
	return c.Price.String() + " " + currency
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// Currency reports whether a text is the code of a currency (ISO 4217's form).
func Currency(s string) bool { return currency.MatchString(s) }

func (b *builder) cost(t *Tool, e Entry, place yamlfile.Place, path string) {
	c := e.Cost
	if c == nil {
		return
	}
	path += ".cost"
	given := 0
	for _, is := range []bool{c.Price.Given(), c.Argument != "", c.Result != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		b.fail(place, path, "wants one of price, argument and result")
	case (c.Result != "") != c.Most.Given():
		b.fail(place, path, "result and most go together: most is held until the result has reported")
	}
	t.Cost = &Cost{Price: c.Price, Argument: c.Argument, Most: c.Most}
	if c.Result != "" {
		t.Cost.Result = strings.Split(c.Result, ".")
	}
	if name, ok := strings.CutPrefix(c.Currency, "{"); ok && strings.HasSuffix(name, "}") {
		t.Cost.Holds = strings.TrimSuffix(name, "}")
	} else if t.Cost.Currency = c.Currency; !Currency(c.Currency) {
		b.fail(place, path+".currency", "wants three capital letters, or {argument}")
	}
	for _, d := range []Decimal{c.Price, c.Most} {
		if _, ok := record.Micros(d.Rat()); d.Given() && !ok {
			b.fail(place, path, "%s is more than can be counted", d)
		}
	}
}

func (b *builder) autonomous(t *Tool, e Entry, place yamlfile.Place, path string) {
	l := e.AutonomousLimit
	if l == nil {
		return
	}
	path += ".autonomous_limit"
	t.AutonomousLimit = &Limit{Argument: l.Argument, Max: l.Max, PerTarget: l.PerTarget, Count: l.Count, Within: l.Within}
	if l.Within == 0 {
		t.AutonomousLimit.Within = 24 * time.Hour
	}
	if l.PerTarget.Given() && len(t.Targets) == 0 {
		b.fail(place, path+".per_target", "needs targets")
	}
	if l.Count < 0 || l.Within < 0 {
		b.fail(place, path, "must be 0 or more")
	}
	if _, ok := record.Micros(l.PerTarget.Rat()); l.PerTarget.Given() && !ok {
		b.fail(place, path+".per_target", "is more than can be counted")
	}
}
