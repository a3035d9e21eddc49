package guard

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"

	"github.com/placet-dev/placet/canon"
	"golang.org/x/text/currency"
)

// isAmount is the rule for money. The value keeps the type and the text that it
// came with and is read as an exact decimal, never as a float.
type isAmount struct {
	currency string // a code; "" when it is beside the amount, or does not matter
	beside   string // the argument that holds the code
	min, max *big.Rat
	decimals int // -1: those of the currency
}

var (
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
	argument     = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_-]{0,127})\}$`)
	// plainAmount is the only way in which an amount is written as text: one zero at
	// most in front, a point, no sign, exponent, space or grouping.
	plainAmount = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$`)
)

func newAmount(s Spec) (rule, error) {
	a := isAmount{decimals: -1}
	switch m := argument.FindStringSubmatch(s.Currency); {
	case m != nil:
		a.beside = m[1]
	case currencyCode.MatchString(s.Currency):
		if _, ok := decimalsOf(s.Currency); !ok {
			return nil, wrong("currency", "is no currency of ISO 4217")
		}
		a.currency = s.Currency
	default:
		return nil, wrong("currency", "is needed: a code such as EUR, or {argument} for the one that the call names")
	}
	if s.Decimals != nil {
		if a.decimals = *s.Decimals; a.decimals < 0 || a.decimals > 18 {
			return nil, wrong("decimals", "must be 0 to 18")
		}
	}
	for _, b := range []struct {
		key, text string
		into      **big.Rat
	}{{"min", s.Min, &a.min}, {"max", s.Max, &a.max}} {
		if b.text == "" {
			continue
		}
		if !plainAmount.MatchString(b.text) {
			return nil, wrong(b.key, "wants a decimal such as 5000 or 0.01")
		}
		*b.into, _ = new(big.Rat).SetString(b.text)
	}
	if a.min != nil && a.max != nil && a.min.Cmp(a.max) > 0 {
		return nil, wrong("min", "is more than max")
	}
	return a, nil
}

// decimalsOf is how many digits a currency has after the point.
func decimalsOf(code string) (int, bool) {
	unit, err := currency.ParseISO(code)
	if err != nil || !currencyCode.MatchString(code) || unit.String() != code || code == "XXX" || code == "XTS" {
		return 0, false
	}
	scale, _ := currency.Standard.Rounding(unit)
	return scale, true
}

func (a isAmount) accept(v value) (json.RawMessage, *Refusal) {
	form := refuse("must be an amount written as a plain decimal, such as 12.50")
	if text, ok := canon.Text(v.raw); ok && !plainAmount.MatchString(text) {
		return nil, form
	}
	amount, ok := canon.Decimal(v.raw)
	if !ok || strings.HasPrefix(string(v.raw), "-") {
		return nil, form
	}
	decimals, refusal := a.places(v)
	switch {
	case refusal != nil:
		return nil, refusal
	case !new(big.Rat).Mul(amount, power(decimals)).IsInt():
		return nil, refuse("has more digits after the point than its currency has")
	case a.min != nil && amount.Cmp(a.min) < 0:
		return nil, refuse("is less than this tool may be given")
	case a.max != nil && amount.Cmp(a.max) > 0, amount.Cmp(most) >= 0:
		return nil, refuse("is more than this tool may be given")
	}
	return v.raw, nil
}

// most is beyond any amount, so that a guard without max bounds it all the same.
var most = power(18)

func power(n int) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
}

// places is how many digits the amount may have after the point. The currency
// must be known even where the entry states the digits.
func (a isAmount) places(v value) (int, *Refusal) {
	code := a.currency
	if a.beside != "" {
		raw, _ := canon.Lookup(v.beside, a.beside)
		code, _ = canon.Text(raw)
	}
	decimals, ok := decimalsOf(code)
	switch {
	case !ok:
		return 0, refuse("has no currency beside it that is known; give its code in " + a.beside)
	case a.decimals >= 0:
		return a.decimals, nil
	}
	return decimals, nil
}
