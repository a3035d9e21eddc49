package main

import (
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// The scripts ask this program for the words that fit, so that they never age.
const (
	bashCompletion = `_placet() {
  local IFS=$'\n'
  COMPREPLY=($(placet complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [ ${#COMPREPLY[@]} -eq 0 ]; then compopt -o default 2>/dev/null; fi
}
complete -F _placet placet
`
	zshCompletion = `#compdef placet
_placet() {
  local -a found
  found=("${(@f)$(placet complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = "_placet" ]; then _placet "$@"; else compdef _placet placet; fi
`
	fishCompletion = `complete -c placet -a '(set -l words (commandline -opc) (commandline -ct); placet complete -- $words[2..-1] 2>/dev/null)'
`
)

func (c completionCommand) Run(p *program) error {
	script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	_, err := io.WriteString(p.stdout, script)
	return err
}

// completeCommand prints the words that may stand in the place of the last one.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c completeCommand) Run(p *program) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	last := ""
	if len(words) > 0 {
		last, words = words[len(words)-1], words[:len(words)-1]
	}
	for _, w := range candidates(p.model.Node, words) {
		if strings.HasPrefix(w, last) {
			if _, err := io.WriteString(p.stdout, w+"\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// candidates are the subcommands and flags after some words.
func candidates(at *kong.Node, words []string) []string {
	flags := at.Flags
	for _, w := range words {
		i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == w && !n.Hidden })
		if i >= 0 {
			at = at.Children[i]
			flags = append(slices.Clone(flags), at.Flags...)
		}
	}
	if d := at.DefaultCmd; d != nil {
		flags = append(slices.Clone(flags), d.Flags...)
	}
	var out []string
	for _, n := range at.Children {
		if !n.Hidden {
			out = append(out, n.Name)
		}
	}
	for _, f := range flags {
		if !f.Hidden {
			out = append(out, "--"+f.Name)
		}
	}
	return out
}
