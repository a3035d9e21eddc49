package guard

import (
	"context"
	"encoding/json"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
	"golang.org/x/text/unicode/norm"
)

// maxPath is Linux's PATH_MAX.
const maxPath = 4096

// inFolder keeps a path below a root. Tool servers differ in what they do to a
// path before they open it, so a path is refused if it would leave the root under
// any reading that is known: decoded once or twice, with backslashes as
// separators, with characters folded that look like dots and slashes.
type inFolder struct {
	folder   Folder
	relative bool
	local    bool
	max      int
}

func newPath(s Spec) (rule, error) {
	if s.Root == "" {
		return nil, wrong("root", "is needed: the folder that nothing may leave")
	}
	folder, err := ParseFolder(s.Root)
	if err != nil {
		return nil, wrong("root", "%s", err)
	}
	p := &inFolder{folder: folder, relative: s.Relative, local: s.Local, max: s.MaxLength}
	if p.max == 0 || p.max > maxPath {
		p.max = maxPath
	}
	return p, nil
}

func (p *inFolder) accept(v value) (json.RawMessage, *Refusal) {
	dir, rel, refusal := p.split(v)
	if refusal != nil {
		return nil, refusal
	}
	out := rel
	if !p.relative {
		// The whole path is sent, so that where the server itself stands does not matter.
		out = path.Join(dir, rel)
	}
	return canon.AppendText(nil, out), nil
}

// split is the caller's root and what the value names below it.
func (p *inFolder) split(v value) (dir, rel string, refusal *Refusal) {
	text, refusal := v.text()
	if refusal != nil {
		return "", "", refusal
	}
	if len(text) > p.max {
		return "", "", refuse("is longer than a path may be")
	}
	dir, err := p.folder.For(v.owner)
	if err != nil {
		return "", "", undecided("is a path, and there is no folder for you here", record.PublicMessage(err))
	}
	if strings.HasPrefix(text, "/") {
		clean := path.Clean(text)
		if p.relative || !below(clean, dir) {
			return "", "", refuse("is a path outside the folder that this tool may use; give one below it")
		}
		if text = strings.TrimPrefix(strings.TrimPrefix(clean, dir), "/"); text == "" {
			text = "."
		}
	}
	rel, refusal = local(text)
	return dir, rel, refusal
}

// examine follows the links of a folder on this machine. A server that opens the
// path later follows them anew: for it this is a check and no guarantee.
func (p *inFolder) examine(_ context.Context, v value, w World) *Refusal {
	dir, rel, refusal := p.split(v)
	if refusal != nil || !p.local {
		return refusal
	}
	if Meets(dir, w.Files) {
		return &Refusal{Code: record.CodeGuardRefused, Public: "is a path that this tool may not use", Private: "the root reaches files of Placet itself"}
	}
	root, err := p.folder.Open(v.owner, w.Files)
	if err != nil {
		return undecided("is a path in a folder that cannot be used now", record.PublicMessage(err))
	}
	defer root.Close()
	if err := stat(root, rel); err != nil {
		return &Refusal{Code: record.CodeGuardRefused, Public: "is a path that leads out of the folder that this tool may use, or cannot be followed",
			Private: "a link leads out of the root, or a part of the path cannot be read"}
	}
	return nil
}

// Local is what a text names below a root, in normal form, for use with an
// os.Root. The error is a *Refusal.
func Local(text string) (string, error) {
	rel, refusal := local(text)
	if refusal != nil {
		return "", refusal
	}
	return rel, nil
}

func local(text string) (string, *Refusal) {
	switch {
	case text == "" || len(text) > maxPath:
		return "", refuse("must be a path")
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable):
		return "", refuse("is a path with a character that cannot be seen")
	case strings.Contains(text, `\`):
		return "", refuse("is a path with a backslash; separate folders with /")
	}
	// What is sent is cleaned, and a server may clean what it decoded: a part that says
	// something at the beginning only, such as a scheme, may get there by that.
	clean := path.Clean(text)
	for _, form := range []string{text, clean} {
		for reading := range readings(form) {
			for _, r := range []string{reading, path.Clean(reading)} {
				switch {
				case leaves(r):
					return "", refuse("is a path that could leave the folder that this tool may use; give a plain one below it")
				case r == "~" || strings.HasPrefix(r, "~/"):
					return "", refuse("is a path outside the folder that this tool may use; give one below it")
				}
			}
		}
	}
	return clean, nil
}

// readings are the texts that servers may make of one before they open it.
func readings(text string) map[string]bool {
	out := map[string]bool{text: true, plainer(text): true}
	for range 2 {
		text = percentDecoded(text)
		out[text], out[plainer(text)] = true, true
	}
	return out
}

// plainer folds characters that some systems put plain dots and slashes for: those
// of Unicode's compatibility forms, and slashes of other kinds.
func plainer(text string) string {
	return norm.NFKC.String(strings.NewReplacer("\u2215", "/", "\u2044", "/", "\u29f8", "/", "\u2216", `\`, "\u29f5", `\`, "\u29f9", `\`).Replace(text))
}

var (
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[/\\]`) // a URL
	drive  = regexp.MustCompile(`^[A-Za-z]:`)
)

// leaves reports whether a reading goes above where it starts, or starts elsewhere.
func leaves(text string) bool {
	if strings.ContainsRune(text, 0) || overlongIn(text) || scheme.MatchString(text) || drive.MatchString(text) {
		return true
	}
	depth := 0
	for i, s := range strings.FieldsFunc("."+text, func(r rune) bool { return r == '/' || r == '\\' }) {
		if i == 0 {
			s = strings.TrimPrefix(s, ".")
		}
		switch up, odd := dots(s); {
		case odd:
			return true
		case up:
			depth--
		case s != "" && s != ".":
			depth++
		}
		if depth < 0 {
			return true
		}
	}
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, `\`)
}

// dots tells .. from what becomes it where spaces and parameters are cut off, or
// where a filter takes ../ out once.
func dots(s string) (up, odd bool) {
	if s == ".." {
		return true, false
	}
	s, _, _ = strings.Cut(s, ";")
	s = strings.TrimRight(s, " ")
	return false, len(s) >= 2 && strings.Trim(s, ".") == ""
}

// overlongIn finds byte sequences that some decoders take for other characters (RFC
// 3629, section 3): two bytes for ASCII, and forms longer than four bytes.
func overlongIn(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c == 0xc0, c == 0xc1, c >= 0xf8 && c <= 0xfd:
			return true
		case (c == 0xe0 && i+1 < len(text) && text[i+1] >= 0x80 && text[i+1] < 0xa0),
			(c == 0xf0 && i+1 < len(text) && text[i+1] >= 0x80 && text[i+1] < 0x90):
			return true
		}
	}
	return false
}

// percentDecoded decodes what is percent-encoded, %u0041 included, and leaves
// other percent signs as they are.
func percentDecoded(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
			if (s[i+1] == 'u' || s[i+1] == 'U') && i+5 < len(s) {
				if r, err := strconv.ParseUint(s[i+2:i+6], 16, 16); err == nil {
					out = utf8.AppendRune(out, rune(r))
					i += 5
					continue
				}
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}
