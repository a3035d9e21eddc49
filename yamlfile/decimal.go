package yamlfile

import (
	"fmt"
	"math/big"
	"regexp"
)

// Decimal is an exact decimal of a configuration file. It keeps the text as it
// was written, which is what people are shown.
type Decimal struct {
	text string
	rat  *big.Rat
}

// UnmarshalText reads an unsigned decimal of at most 30 digits before and 18
// after the point. There is no exponent, so that no text stands for more than
// it shows.
func (d *Decimal) UnmarshalText(text []byte) error {
	if !regexp.MustCompile(`^(0|[1-9][0-9]{0,29})(\.[0-9]{1,18})?$`).Match(text) {
		return fmt.Errorf("wants a decimal such as 200 or 199.95, 0 or more")
	}
	r, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return fmt.Errorf("wants a decimal such as 200 or 199.95")
	}
	*d = Decimal{string(text), r}
	return nil
}

// ParseDecimal reads a decimal as a file would give it.
func ParseDecimal(text string) (Decimal, error) {
	var d Decimal
	err := d.UnmarshalText([]byte(text))
	return d, err
}

// YAMLNumber lets a file write it without quotes.
func (*Decimal) YAMLNumber() {}

// Given reports whether the file gave one.
func (d Decimal) Given() bool { return d.rat != nil }

func (d Decimal) String() string               { return d.text }
func (d Decimal) MarshalText() ([]byte, error) { return []byte(d.text), nil }

// Rat returns a copy of the value; nil if none was given.
func (d Decimal) Rat() *big.Rat {
	if d.rat == nil {
		return nil
	}
	return new(big.Rat).Set(d.rat)
}
