package label

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readings are a text in every form in which something in it may have been hidden:
// first as it is, then decoded. They serve only to find what must ask; nothing is
// trusted for what it reads like (rule B5).
func readings(s string) []string {
	out := []string{s}
	add := func(t string) {
		if t == "" || len(out) >= maxReadings {
			return
		}
		for _, have := range out {
			if have == t {
				return
			}
		}
		out = append(out, t)
	}
	// What one decoding yields may be encoded again: two rounds.
	done := 0
	for range 2 {
		until := len(out)
		for ; done < until; done++ {
			t := out[done]
			for _, decode := range []func(string) string{plainLetters, percent, entities, escapes, base64s, hexes, defanged, spaced} {
				add(decode(t))
			}
			// Hidden in two ways at once: letters first, then signs.
			if p := plain(t); p != t {
				add(spaced(p))
				add(defanged(p))
			}
			if d := defanged(t); d != "" {
				add(spaced(d))
			}
		}
	}
	return out
}

const maxReadings = 48

// percent decodes percent-encoding, however often it was applied.
func percent(s string) string {
	if !strings.Contains(s, "%") {
		return ""
	}
	out := s
	for range 4 {
		next := percentForm.ReplaceAllStringFunc(out, func(found string) string {
			if d, err := url.PathUnescape(found); err == nil {
				return d
			}
			return found
		})
		if next == out {
			break
		}
		out = next
	}
	return out
}

var (
	percentForm = regexp.MustCompile(`(?:%[0-9A-Fa-f]{2})+`)
	escapeForm  = regexp.MustCompile(`\\u\{?([0-9A-Fa-f]{4,6})\}?|\\x([0-9A-Fa-f]{2})|=([0-9A-F]{2})`)
	hexForm     = regexp.MustCompile(`(?i)(?:(?:0x|\\x)?[0-9a-f]{2}[ :,-]?){4,}`)
	dotForm     = regexp.MustCompile(`(?i)\s*(?:\[\s*(?:\.|dot)\s*\]|\(\s*(?:\.|dot)\s*\)|\{\s*(?:\.|dot)\s*\}|\bdot\b)\s*`)
	atForm      = regexp.MustCompile(`(?i)\s*(?:\[\s*(?:@|at)\s*\]|\(\s*(?:@|at)\s*\)|\{\s*(?:@|at)\s*\}|<\s*at\s*>)\s*`)
	bareAt      = regexp.MustCompile(`(?i)(\S+)\s+at\s+(\S+\.\S+)`)
	colonForm   = regexp.MustCompile(`\[\s*:\s*\]|\[\s*://\s*\]`)
	slashForm   = regexp.MustCompile(`\[\s*/\s*\]`)
	schemeForm  = regexp.MustCompile(`(?i)\bh(?:xx|\*\*|tt)ps?\s*:\s*/\s*/\s*`)
	aroundForm  = regexp.MustCompile(`(\pL|\pN)\s+([@./:])\s+(\pL|\pN)`)
	aroundSign  = regexp.MustCompile(`\s*@\s*`)
)

func entities(s string) string {
	if !strings.Contains(s, "&") {
		return ""
	}
	return html.UnescapeString(s)
}

func escapes(s string) string {
	if !strings.ContainsAny(s, `\=`) {
		return ""
	}
	return escapeForm.ReplaceAllStringFunc(s, func(found string) string {
		m := escapeForm.FindStringSubmatch(found)
		digits := m[1] + m[2] + m[3]
		var r rune
		for _, d := range digits {
			v := strings.IndexRune("0123456789abcdef", unicode.ToLower(d))
			r = r<<4 | rune(v)
		}
		return string(r)
	})
}

func base64s(s string) string {
	return decodeEach(s, base64Runs, func(found string) ([]byte, error) {
		t := strings.TrimRight(found, "=")
		t = strings.NewReplacer("-", "+", "_", "/").Replace(t)
		if len(t)%4 == 1 {
			t = t[:len(t)-1]
		}
		return base64.RawStdEncoding.DecodeString(t)
	})
}

func hexes(s string) string {
	if !hexRun(s) {
		return ""
	}
	return decodeEach(s, func(s string, decode func(string) string) string { return hexForm.ReplaceAllStringFunc(s, decode) }, func(found string) ([]byte, error) {
		t := strings.NewReplacer("0x", "", "0X", "", `\x`, "", " ", "", ":", "", ",", "", "-", "").Replace(found)
		return hex.DecodeString(t[:len(t)/2*2])
	})
}

// decodeEach puts in place of each match what it decodes to, if that is readable.
func decodeEach(s string, each func(string, func(string) string) string, decode func(string) ([]byte, error)) string {
	changed := false
	out := each(s, func(found string) string {
		d, err := decode(found)
		if err != nil || len(d) < 3 || !readable(d) {
			return found
		}
		changed = true
		return " " + string(d) + " "
	})
	if !changed {
		return ""
	}
	return out
}

// base64Runs puts decode's answer in place of every run of eight or more characters
// of base64.
func base64Runs(s string, decode func(string) string) string {
	in := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '_' || c == '-'
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && in(s[j]) {
			j++
		}
		if j-i >= 8 {
			for k := 0; k < 2 && j < len(s) && s[j] == '='; k++ {
				j++
			}
			b.WriteString(decode(s[i:j]))
		} else {
			j = max(j, i+1)
			b.WriteString(s[i:j])
		}
		i = j
	}
	return b.String()
}

// hexRun reports whether there may be four hexadecimal bytes in a row.
func hexRun(s string) bool {
	run := 0
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case s[i] >= '0' && s[i] <= '9', c >= 'a' && c <= 'f':
			if run++; run >= 8 {
				return true
			}
		case s[i] == ' ', s[i] == ':', s[i] == ',', s[i] == '-', c == 'x', s[i] == '\\':
		default:
			run = 0
		}
	}
	return false
}

func readable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
	}
	return true
}

func defanged(s string) string {
	low := strings.ToLower(s)
	if !strings.ContainsAny(s, "[({<") && !strings.Contains(low, "dot") && !strings.Contains(low, " at ") && !strings.Contains(low, "hxx") &&
		!strings.Contains(low, "h**") && !strings.Contains(s, ": /") && !strings.Contains(s, "/ /") {
		return ""
	}
	out := schemeForm.ReplaceAllStringFunc(s, func(found string) string {
		if strings.Contains(strings.ToLower(strings.SplitN(found, ":", 2)[0]), "s") {
			return "https://"
		}
		return "http://"
	})
	out = colonForm.ReplaceAllString(out, ":")
	out = slashForm.ReplaceAllString(out, "/")
	out = dotForm.ReplaceAllString(out, ".")
	out = atForm.ReplaceAllString(out, "@")
	return bareAt.ReplaceAllString(out, "$1@$2")
}

// spaced joins what was pulled apart: single characters in a row, and signs that
// hold addresses together with spaces around them.
func spaced(s string) string {
	if s == "" || !pulledApart(s) {
		return ""
	}
	var b strings.Builder
	run := 0 // how many single characters the row has so far
	fields := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '*' || r == '|' || r == ',' || r == '·' })
	for i, f := range fields {
		single := utf8.RuneCountInString(f) == 1
		if i > 0 && !(single && run > 0) {
			b.WriteByte(' ')
		}
		b.WriteString(f)
		if run++; !single {
			run = 0
		}
	}
	out := letterRows.ReplaceAllStringFunc(b.String(), func(row string) string {
		return strings.NewReplacer("-", "", "_", "").Replace(row)
	})
	for range 2 {
		out = aroundForm.ReplaceAllString(out, "$1$2$3")
	}
	return aroundSign.ReplaceAllString(out, "@")
}

// pulledApart reports whether there is anything for spaced to do.
func pulledApart(s string) bool {
	single, before := 0, ' '
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		next, _ := utf8.DecodeRuneInString(s[i:])
		apart := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("*|,·-_", r) }
		if apart(r) {
			before = r
			continue
		}
		if apart(before) && (apart(next) || i == len(s)) {
			if strings.ContainsRune("@./:", r) {
				return true
			}
			if single++; single >= 4 {
				return true
			}
		} else if !apart(before) || !apart(next) {
			single = 0
		}
		if r == '@' && (unicode.IsSpace(before) || unicode.IsSpace(next)) {
			return true
		}
		before = r
	}
	return false
}

// letterRows are single characters with hyphens between them.
var letterRows = regexp.MustCompile(`(?:[\pL\pN@.:/][-_]){4,}[\pL\pN@.:/]`)

// plainLetters takes away what cannot be seen, and puts plain letters in place of
// those that look like them.
func plainLetters(s string) string {
	ascii := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return ""
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Mn, r), r == '\u115f', r == '\u3164', r == '\uffa0':
			return -1
		case r >= 0xff01 && r <= 0xff5e: // full-width
			return r - 0xfee0
		case r >= 0x24b6 && r <= 0x24cf: // circled
			return 'A' + r - 0x24b6
		case r >= 0x24d0 && r <= 0x24e9:
			return 'a' + r - 0x24d0
		case r >= 0x1d400 && r <= 0x1d6a3: // mathematical letters
			return []rune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")[(r-0x1d400)%52]
		case r >= 0x1d7ce && r <= 0x1d7ff: // and digits
			return '0' + (r-0x1d7ce)%10
		case r >= 0x2000 && r <= 0x200a, r == 0x3000, r == 0xa0, r == 0x202f, r == 0x205f:
			return ' '
		case r >= 0x2010 && r <= 0x2015, r == 0x2212:
			return '-'
		case unicode.IsDigit(r) && r > unicode.MaxASCII:
			return digitOf(r)
		}
		if plain, ok := alike[r]; ok {
			return plain
		}
		return r
	}, s)
}

// digitOf is the ASCII digit of a decimal digit of another script: they stand in
// rows of ten.
func digitOf(r rune) rune {
	n := 0
	for unicode.IsDigit(r-rune(n)-1) && n < 9 {
		n++
	}
	return '0' + rune(n)
}

// alike are letters and signs of other scripts that look like plain ones.
var alike = func() map[rune]rune {
	m := map[rune]rune{}
	for _, pair := range []struct{ from, to string }{
		{"аАеЕоОрРсСхХуУіІјЈѕЅһҺԁԛԝмМнНтТкКвВзӏ", "aAeEoOpPcCxXyYiIjJsShHdqwmMhHtTkKbB3l"},
		{"αΑεΕοΟρΡνΝιΙκΚτΤυΥχΧβΒηΗμΜζΖϲγ", "aAeEoOpPvNiIkKtTuYxXbBnHuMzZcy"},
		{"օհոսցզքԼ", "ohnugqpL"},
		{"ɑɡıȷʟɪɴʀ", "agijlinr"},
		{"。．｡․‧∙⋅•", "........"},
		{"＠﹫", "@@"},
		{"⁄∕／⧸", "////"},
		{"：﹕꞉∶", "::::"},
	} {
		to := []rune(pair.to)
		for i, r := range []rune(pair.from) {
			m[r] = to[i]
		}
	}
	return m
}()
