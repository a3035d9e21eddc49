package query

import (
	"strings"

	"github.com/placet-dev/placet/yamlfile"
)

// Dialect is a database's own SQL.
type Dialect int

const (
	PostgreSQL Dialect = iota
	SQLite
)

// scanner finds the placeholders and the end of one statement, for early errors with
// a place. It is stricter than the databases: what they could read in another way
// than this is refused. What a statement's placeholders are is said by who runs it
// (pgx, SQLite), and a difference between the two is an error there.
type scanner struct {
	file, text string
	at         int
	dialect    Dialect

	sql          string // without the semicolon
	keyword      string // the first word, in lower case
	first        int    // line of the first token
	ended        bool   // after the semicolon
	placeholders []placeholder
	problems     yamlfile.Problems
}

type placeholder struct {
	name string
	line int
}

// scan reads a file's text from an offset on.
func scan(file, text string, from int, d Dialect) *scanner {
	s := &scanner{file: file, text: text, at: from, dialect: d}
	end := len(text)
	for s.at < len(text) && len(s.problems) == 0 {
		if begin := s.at; s.token() && s.ended {
			end = begin
			break
		}
	}
	if s.first == 0 {
		s.first = line(text, len(text))
		s.fail(len(text), "has no statement")
	}
	if s.ended {
		s.rest()
	}
	s.sql = strings.TrimSpace(text[from:end])
	return s
}

func (s *scanner) fail(at int, message string) {
	s.problems = append(s.problems, yamlfile.Problem{File: s.file, Line: line(s.text, at), Message: message})
}

// rest refuses whatever comes after the semicolon.
func (s *scanner) rest() {
	for s.at < len(s.text) && len(s.problems) == 0 {
		if begin := s.at; !s.space() {
			s.fail(begin, "a second statement begins here; a file holds one")
		}
	}
}

// space passes white space or a comment.
func (s *scanner) space() bool {
	rest := s.text[s.at:]
	switch {
	case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
		s.at++
	case strings.HasPrefix(rest, "--"):
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			s.at += n + 1
		} else {
			s.at = len(s.text)
		}
	case strings.HasPrefix(rest, "/*"):
		n := strings.Index(rest[2:], "*/")
		if n < 0 || strings.Contains(rest[2:2+n], "/*") {
			s.fail(s.at, "the comment does not end, or holds another; databases differ on where such a comment ends")
			n = len(rest) - 4
		}
		s.at += n + 4
	default:
		return false
	}
	return true
}

// token passes one token. It is false for what is no token: space and comments.
func (s *scanner) token() bool {
	if s.space() {
		return false
	}
	c := s.text[s.at]
	if s.first == 0 {
		s.first = line(s.text, s.at)
		if c == ';' {
			s.fail(s.at, "has no statement")
		}
	}
	switch {
	case c == ';':
		s.ended = true
		s.at++
	case c == '\'' || c == '"':
		s.quoted(c)
	case c == '@':
		s.placeholder()
	case s.dialect == SQLite && strings.IndexByte("?:[", c) >= 0, c == '`', c == '$':
		s.fail(s.at, "the character "+string(c)+" is not read here; placeholders are @name, names are quoted with \" and texts with '")
		s.at++
	case wordStart(c):
		s.word()
	default:
		s.at++
	}
	return true
}

func wordStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func wordPart(c byte) bool { return wordStart(c) || c >= '0' && c <= '9' || c == '$' }

func (s *scanner) word() {
	begin := s.at
	for s.at < len(s.text) && wordPart(s.text[s.at]) {
		s.at++
	}
	word := strings.ToLower(s.text[begin:s.at])
	if s.keyword == "" {
		s.keyword = word
	}
	if word == "e" && strings.HasPrefix(s.text[s.at:], "'") {
		s.fail(begin, "texts with backslash escapes (E'…') are not read here; write a plain text")
	}
}

// quoted passes a text or a quoted name, in which a doubled quote is one.
func (s *scanner) quoted(quote byte) {
	begin := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		if s.text[s.at] != quote {
			continue
		}
		if s.at++; s.at == len(s.text) || s.text[s.at] != quote {
			return
		}
	}
	s.fail(begin, "the quote does not end")
}

// placeholder passes @name, or the sign alone, which is an operator of PostgreSQL.
func (s *scanner) placeholder() {
	begin := s.at
	s.at++
	if s.at == len(s.text) || !wordStart(s.text[s.at]) || s.text[s.at] >= 0x80 {
		if s.dialect == SQLite {
			s.fail(begin, "a placeholder is @name")
		}
		return
	}
	for s.at < len(s.text) && wordPart(s.text[s.at]) && s.text[s.at] < 0x80 && s.text[s.at] != '$' {
		s.at++
	}
	if s.at < len(s.text) && (wordPart(s.text[s.at]) || s.dialect == SQLite && s.text[s.at] == '(') {
		s.fail(begin, "the placeholder does not end where it should; put a space behind it")
	}
	s.placeholders = append(s.placeholders, placeholder{s.text[begin+1 : s.at], line(s.text, begin)})
}
