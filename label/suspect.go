package label

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of what is looked for in arguments that are no targets (rule F5).
const (
	KindURL     = "url"
	KindEmail   = "email"
	KindAccount = "account"
	KindPhone   = "phone"
	KindFile    = "file"
	KindAddress = "address" // of a host or a machine
	KindSecret  = "value"   // of a sensitive result
)

// suspect is a value inside an argument that could lead somewhere.
type suspect struct {
	kind, text string
	hidden     bool // it was found only after decoding
}

var (
	urlForm     = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]{1,20}:(?://|\\\\|/\\|\\/)[^\s"'<>]+|\bwww\.[^\s"'<>]+|\b(?:javascript|data|mailto|tel|sms|file):[^\s"'<>]+`)
	emailForm   = regexp.MustCompile(`[\pL\pN._%+'-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+`)
	handleForm  = regexp.MustCompile(`(?:^|[\s(,;:])(@[A-Za-z0-9_][A-Za-z0-9_.-]{2,}|@[\pL\pN]+:[\pL\pN.-]+)`)
	hostForm    = regexp.MustCompile(`(?i)(?:[\pL\pN](?:[\pL\pN-]*[\pL\pN])?\.)+(?:xn--[a-z0-9-]+|\pL{2,24})(?::\d{1,5})?(?:[/?#][^\s"'<>]*)?`)
	machineForm = regexp.MustCompile(`(?i)\b\d{1,3}(?:\.\d{1,3}){3}\b|\b0x[0-9a-f]{8}\b|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{0,4}|\[[0-9a-f:]{3,}\]|\blocalhost\b`)
	ibanForm    = regexp.MustCompile(`(?i)\b[a-z]{2}[ -]?\d{2}(?:[ -]?[a-z0-9]{2,6}){2,9}\b`)
	numberForm  = regexp.MustCompile(`\+?\(?\d(?:[\s().\-/]{0,2}\d){6,}`)
	mixedForm   = regexp.MustCompile(`(?i)\b[a-z0-9]*\d[a-z0-9]*\b`)
	pathForm    = regexp.MustCompile(`(?:^|[\s"'(=:])((?:~|\.{1,2}|[A-Za-z]:)?[/\\][^\s"'<>|]+|[\pL\pN_.-]+(?:[/\\][\pL\pN_.-]+){2,})`)
	fileForm    = regexp.MustCompile(`(?i)[\pL\pN_%~$-][\pL\pN_.%~$-]*\.([a-z][a-z0-9]{0,4}|7z|mp[34])\b`)
)

// suspects finds what could lead somewhere in one text as it stands.
func suspects(s string, found func(kind, text string)) {
	if !strings.ContainsAny(s, `@./\:0123456789`) && !strings.Contains(fold(s), "localhost") {
		return
	}
	trim := func(t string) string { return strings.TrimRight(t, `.,;:!?)]}'"”’`) }
	if strings.Contains(s, ":") || strings.Contains(s, "www.") || strings.Contains(s, "WWW.") {
		for _, m := range urlForm.FindAllString(s, -1) {
			found(KindURL, trim(m))
		}
	}
	if strings.Contains(s, "@") {
		for _, m := range emailForm.FindAllString(s, -1) {
			found(KindEmail, trim(m))
		}
		for _, m := range handleForm.FindAllStringSubmatch(s, -1) {
			found(KindAccount, trim(m[1]))
		}
	}
	if dotted(s) {
		for _, m := range hostForm.FindAllString(s, -1) {
			if isHost(m) {
				found(KindURL, trim(m))
			}
		}
		for _, m := range fileForm.FindAllStringSubmatch(s, -1) {
			if extensions[strings.ToLower(m[1])] {
				found(KindFile, trim(m[0]))
			}
		}
	}
	if strings.ContainsAny(s, "0123456789[") && strings.ContainsAny(s, ".:xX[") || strings.Contains(fold(s), "localhost") {
		for _, m := range machineForm.FindAllString(s, -1) {
			found(KindAddress, m)
		}
	}
	if strings.ContainsAny(s, `/\`) {
		for _, m := range pathForm.FindAllStringSubmatch(s, -1) {
			if strings.ContainsFunc(m[1], unicode.IsLetter) {
				found(KindFile, trim(m[1]))
			}
		}
	}
	numbers(withoutDates(s), found)
}

// dotted reports whether a dot stands before a letter, as in names of hosts and files.
func dotted(s string) bool {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '.' && (s[i+1]|0x20 >= 'a' && s[i+1]|0x20 <= 'z' || s[i+1] == '7' || s[i+1] >= utf8.RuneSelf) {
			return true
		}
	}
	return false
}

// numbers finds accounts and phone numbers: an IBAN, seven digits or more however
// they are grouped, and long words of letters and digits.
func numbers(s string, found func(kind, text string)) {
	digits := 0
	for _, r := range s {
		if unicode.IsDigit(r) {
			digits++
		}
	}
	if digits < 4 {
		return
	}
	for _, m := range ibanForm.FindAllString(s, -1) {
		if n := squeeze(m); len(n) >= 12 && countDigits(n) >= 6 {
			found(KindAccount, strings.TrimSpace(m))
		}
	}
	for _, m := range mixedForm.FindAllString(s, -1) {
		if n := countDigits(m); len(m) >= 8 && n >= 4 && n < len(m) {
			found(KindAccount, m)
		}
	}
	for _, m := range numberForm.FindAllString(s, -1) {
		kind := KindPhone
		if countDigits(m) > 11 {
			kind = KindAccount
		}
		found(kind, strings.TrimRight(strings.TrimSpace(m), ".-/("))
	}
}

func countDigits(s string) (n int) {
	for _, r := range s {
		if unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// isHost reports whether names with dots are a host's: the last one is a top-level
// domain, or of a script of its own.
func isHost(s string) bool {
	host, _, _ := strings.Cut(s, "/")
	host, _, _ = strings.Cut(host, "?")
	host, _, _ = strings.Cut(host, "#")
	host, _, _ = strings.Cut(host, ":")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if strings.HasPrefix(last, "xn--") || utf8.RuneCountInString(last) != len(last) {
		return true
	}
	return len(last) == 2 || domains[last]
}

var domains = set(`com org net edu gov mil int info biz name pro aero coop museum mobi app dev page web site online shop store xyz top club
	vip live life world today news blog cloud host link click email chat social space tech digital agency studio media design
	team work works zone group systems solutions services support center company network global international finance bank
	money cash fund capital credit loan insurance trade exchange market markets sale deals gift games game play fun bet casino
	tv fm icu buzz cyou rest bar cafe pizza art photo photos video film music run fit win bid stream download date review
	science party racing cricket faith loan men webcam zip mov foo onion local internal lan corp home arpa test example invalid
	legal law tax doctor health care clinic dental school academy education university training jobs careers`)

var extensions = set(`txt md rst log csv tsv json xml yaml yml toml ini cfg conf env pdf doc docx docm odt rtf xls xlsx xlsm ods ppt pptx odp key
	pages html htm xhtml mht css js mjs ts jsx tsx py rb php pl sh bash zsh fish bat cmd ps1 vbs exe dll msi com scr jar apk app dmg
	iso img bin so deb rpm zip tar gz tgz bz2 xz 7z rar cab png jpg jpeg gif bmp svg webp tif tiff heic mp3 mp4 mov avi mkv wav flac
	sql db sqlite mdb bak tmp dat pem crt cer key p12 pfx asc gpg kdbx eml msg ics vcf c h cc cpp hpp go rs java kt swift cs lua r ipynb
	lnk url reg plist parquet`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}
