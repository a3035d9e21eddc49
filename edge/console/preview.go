package console

import (
	"github.com/placet-dev/placet/edge/question"
	"github.com/placet-dev/placet/record"
)

// preview is what a dry run showed when the question was opened.
type preview struct {
	Tool   string
	Text   folded
	Left   int
	Failed string
}

func previewOf(p *record.Preview) *preview {
	if p == nil {
		return nil
	}
	return &preview{Tool: p.Tool, Text: fold(p.Text, 600, 8000), Left: p.Left, Failed: question.NoPreview(p)}
}

func previewText(p *record.Preview) string {
	if p == nil || p.Code != record.CodeNone {
		return ""
	}
	return p.Text
}
