package question

import "github.com/placet-dev/placet/record"

// NoPreview says why there is no preview of a call; "" where there is one, or where
// its tool has none.
func NoPreview(p *record.Preview) string {
	switch {
	case p == nil || p.Code == record.CodeNone:
		return ""
	case p.Code == record.CodeFailed:
		return "The preview could not be made: " + p.Tool + " did not answer with one. What would change is not shown here."
	default:
		return "The preview could not be made: " + p.Tool + " could not be called for it. What would change is not shown here."
	}
}
