package console

import (
	"fmt"
	"html/template"

	"github.com/placet-dev/placet/canon"
)

// Bounds of one page. A value beyond them is still all in the file that the page
// offers.
const (
	foldAt    = 400    // characters of one text before its fold
	foldMost  = 8_000  // and behind it
	nameAt    = 100    // characters of a name
	pageChars = 30_000 // characters of all texts together, beside each argument's first
	pageNodes = 400    // members and elements on the page, beside the arguments themselves
	arguments = 200    // arguments on the page, however large the others are
	openNodes = 12     // of one object or list before its fold
	maxDepth  = 8
)

// node is a value as the page shows it.
type node struct {
	Name   template.HTML // of a member; empty for an element
	Quoted bool          // it is a text
	Text   folded        // for what is no object and no list
	Open   string        // { or [ for those
	Close  string
	Items  []node // shown at once
	Folded []node // behind a fold
	Count  int    // members or elements in all
	Left   int    // of which are not on the page
}

// budget is what is left of a page's bounds.
type budget struct{ nodes, chars int }

// valueOf reads a canonical value. It shows nothing that it does not also count.
func valueOf(raw []byte) node {
	return (&budget{pageNodes, pageChars}).value(raw, 0)
}

func (b *budget) value(raw []byte, depth int) node {
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		return b.list(raw, depth)
	}
	text, quoted := canon.Text(raw)
	if !quoted {
		text = string(raw)
	}
	n := node{Quoted: quoted, Text: fold(text, foldAt, min(foldMost, b.chars))}
	b.chars -= min(foldMost, len(text))
	return n
}

func (b *budget) list(raw []byte, depth int) node {
	n := node{Open: "{", Close: "}"}
	add := func(name string, value []byte) {
		n.Count++
		if depth > 0 {
			b.nodes--
		}
		if depth == 0 && n.Count > arguments || depth > 0 && (b.nodes < 0 || b.chars <= 0) || depth >= maxDepth {
			n.Left++
			return
		}
		item := b.value(value, depth+1)
		item.Name = nameOf(name)
		if len(n.Items) < openNodes {
			n.Items = append(n.Items, item)
		} else {
			n.Folded = append(n.Folded, item)
		}
	}
	if raw[0] == '[' {
		n.Open, n.Close = "[", "]"
		for value := range canon.Elements(raw) {
			add("", value)
		}
		return n
	}
	for name, value := range canon.Members(raw) {
		add(name, value)
	}
	return n
}

// nameOf is a member's name. It is rarely long; if it is, the page says how long.
func nameOf(name string) template.HTML {
	f := fold(name, nameAt, 0)
	if f.Left > 0 {
		f.Text += template.HTML(fmt.Sprintf(`<span class="odd">⟦%d more characters⟧</span>`, f.Left)) // a number
	}
	return f.Text
}
