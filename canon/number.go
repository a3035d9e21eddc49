package canon

import (
	"math/big"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	notFinite = "number too large for a double"
	notExact  = "integral number that a double does not hold exactly; send it as a string"
)

// inexact says why a number's literal cannot be taken, or "". An integral number
// is taken only if the shortest decimal form of its nearest double, which is
// what ECMAScript and RFC 8785 write, denotes the same number. So 9007199254740993
// is refused, and 1e21 is not. A text that is no number is left to the grammar.
func inexact(literal []byte) string {
	if len(literal) <= 15 && allDigits(literal) {
		return "" // below 2^53, and the usual case
	}
	d, ok := parseDecimal(literal)
	if !ok {
		return ""
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return notFinite
	}
	if !d.integral() {
		return ""
	}
	var buf [32]byte
	shortest, ok := parseDecimal(strconv.AppendFloat(buf[:0], f, 'e', -1, 64))
	if !ok || !d.equal(shortest) {
		return notExact
	}
	return ""
}

func allDigits(s []byte) bool {
	if len(s) > 1 && s[0] == '-' {
		s = s[1:]
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) > 0
}

// decimal is ±0.digits × 10^exponent; digits neither start nor end with 0, and
// zero has none. Two decimals denote one number if and only if they are equal,
// save that -0 is 0.
type decimal struct {
	negative bool
	digits   []byte
	exponent int // saturates far beyond any double
}

func (d decimal) integral() bool { return d.exponent >= len(d.digits) }

func (d decimal) equal(e decimal) bool {
	return (d.negative == e.negative || len(d.digits) == 0) &&
		d.exponent == e.exponent && string(d.digits) == string(e.digits)
}

// farExponent is beyond any double, whatever the digits a text can hold say.
const farExponent = 1 << 27

// parseDecimal reads a number as RFC 8259 section 6 writes it.
func parseDecimal(s []byte) (decimal, bool) {
	var d decimal
	if len(s) > 0 && s[0] == '-' {
		d.negative, s = true, s[1:]
	}
	whole, s := cutDigits(s)
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return decimal{}, false
	}
	d.digits, d.exponent = whole, len(whole)
	if len(s) > 0 && s[0] == '.' {
		var fraction []byte
		if fraction, s = cutDigits(s[1:]); len(fraction) == 0 {
			return decimal{}, false
		}
		d.digits = append(append(make([]byte, 0, len(whole)+len(fraction)), whole...), fraction...)
	}
	if len(s) > 0 && (s[0] == 'e' || s[0] == 'E') {
		var e int
		var ok bool
		if e, s, ok = cutExponent(s[1:]); !ok {
			return decimal{}, false
		}
		d.exponent += e
	}
	if len(s) > 0 {
		return decimal{}, false
	}
	return d.trimmed(), true
}

func (d decimal) trimmed() decimal {
	for len(d.digits) > 0 && d.digits[0] == '0' {
		d.digits = d.digits[1:]
		d.exponent--
	}
	for len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
	}
	if len(d.digits) == 0 {
		d.exponent = 0
	}
	return d
}

func cutDigits(s []byte) (digits, rest []byte) {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return s[:n:n], s[n:]
}

func cutExponent(s []byte) (exponent int, rest []byte, ok bool) {
	negative := false
	if len(s) > 0 && (s[0] == '+' || s[0] == '-') {
		negative, s = s[0] == '-', s[1:]
	}
	digits, rest := cutDigits(s)
	for _, c := range digits {
		if exponent < farExponent {
			exponent = exponent*10 + int(c-'0')
		}
	}
	if negative {
		exponent = -exponent
	}
	return exponent, rest, len(digits) > 0
}

// The bounds of [Decimal]: every double fits, and nothing that would cost memory.
const (
	maxDecimalText     = 800
	maxDecimalExponent = 400
)

// Decimal reads a JSON number, or a JSON string that holds a number written the
// same way ("12.50"), as an exact decimal. It is for amounts and limits: no
// rounding, no sign or space or grouping that JSON would not allow in a number.
// Anything else, and exponents beyond any double, give false.
func Decimal(value []byte) (*big.Rat, bool) {
	if len(value) > 0 && value[0] == '"' {
		text, ok := Text(value)
		if !ok {
			return nil, false
		}
		value = []byte(text)
	}
	if len(value) > maxDecimalText {
		return nil, false
	}
	d, ok := parseDecimal(value)
	if !ok || d.exponent > maxDecimalExponent || d.exponent < -maxDecimalExponent {
		return nil, false
	}
	return d.rat(), true
}

// rat needs an exponent that is bounded.
func (d decimal) rat() *big.Rat {
	n, ok := new(big.Int).SetString("0"+string(d.digits), 10)
	if !ok {
		return new(big.Rat) // cannot be: there are only digits
	}
	if d.negative {
		n.Neg(n)
	}
	shift := d.exponent - len(d.digits)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		return new(big.Rat).SetInt(n.Mul(n, scale))
	}
	return new(big.Rat).SetFrac(n, scale)
}

// Text decodes a JSON string. Anything else gives false.
func Text(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	inner := value[1 : len(value)-1]
	if plain(inner) && value[len(value)-1] == '"' {
		return string(inner), true
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

// plain reports whether a string's inside is ASCII that stands for itself.
func plain[T string | []byte](inner T) bool {
	for i := range len(inner) {
		if c := inner[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
