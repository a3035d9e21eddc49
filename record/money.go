package record

import (
	"math/big"
	"strconv"
	"strings"
)

// Micros is an amount in millionths, rounded up, so that what is counted is never
// less than what was spent. It is false for what is negative, or more than a
// counter can hold.
func Micros(amount *big.Rat) (int64, bool) {
	if amount == nil || amount.Sign() < 0 {
		return 0, false
	}
	n := new(big.Int).Mul(amount.Num(), big.NewInt(1_000_000))
	n, rest := n.QuoRem(n, amount.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	const most = 1 << 60 // sums of a few of these still fit
	if !n.IsInt64() || n.Int64() > most {
		return 0, false
	}
	return n.Int64(), true
}

// MicrosText writes millionths as a decimal, without zeros that say nothing.
func MicrosText(n int64) string {
	whole, part := n/1_000_000, n%1_000_000
	sign := ""
	if n < 0 {
		sign, whole, part = "-", -whole, -part
	}
	text := strconv.FormatInt(part, 10)
	text = strings.TrimRight(strings.Repeat("0", 6-len(text))+text, "0")
	if text == "" {
		return sign + strconv.FormatInt(whole, 10)
	}
	return sign + strconv.FormatInt(whole, 10) + "." + text
}
