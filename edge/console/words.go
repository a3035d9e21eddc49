package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// The words for a question are those of every place that shows it.
func asked(code record.Code) string { return question.Why(code) }
func stateWord(state any) string    { return question.State(state) }
func left(d time.Duration) string   { return question.Left(d) }

// breaks is a name of our own that lines may break at its underscores.
func breaks(name any) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(fmt.Sprint(name)), "_", "_<wbr>"))
}

// clockText is a time for people; the page's script adds their own zone.
func clockText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func machineTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
