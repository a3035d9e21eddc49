package guard

import "unicode"

// unprintable reports whether a character cannot be seen, or changes how others
// are read: controls, directional overrides (UAX 9), tags, line separators, marks
// of byte order and noncharacters. Joiners and directional marks belong to the
// writing of several languages and are none.
func unprintable(r rune) bool {
	switch {
	case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029,
		r == 0xfeff, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f, r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
		return true
	}
	return false
}
