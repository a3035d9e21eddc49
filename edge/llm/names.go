package llm

import (
	"maps"
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// longest is the most bytes of a tool's name that all providers take.
const longest = 64

// Aliases are the names under which models see tools whose own names hold dots,
// which providers refuse (rule G3). The map is injective, and no alias is the name
// of another tool, also when case is folded and names are cut to 64 bytes; it is an
// error if that cannot be had. Names without dots are their own.
func Aliases(names []string) (map[string]string, error) {
	taken := map[string]string{} // by what a provider keeps apart
	wanted := map[string]int{}
	for _, name := range names {
		if !strings.Contains(name, ".") {
			taken[kept(name)] = name
		}
		wanted[kept(undotted(name))]++
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if !strings.Contains(name, ".") {
			continue
		}
		alias := undotted(name)
		if wanted[kept(alias)] > 1 {
			mark := "_" + canon.Of("placet/alias/1", []byte(name)).String()[len("sha256:"):][:8]
			alias = alias[:min(len(alias), longest-len(mark))] + mark
		}
		if other, twice := taken[kept(alias)]; twice {
			return nil, record.Errorf(record.Invalid, "models would see %q and %q under one name; rename one of the two", name, other)
		}
		taken[kept(alias)] = name
		out[name] = alias
	}
	return out, nil
}

func undotted(name string) string { return strings.ReplaceAll(name, ".", "_") }

// kept is what tells names apart everywhere.
func kept(name string) string {
	name = strings.ToLower(name)
	return name[:min(len(name), longest)]
}

// names finds the registry's name of what a model called.
type names map[string]string

// newNames takes the registry's names and what clients put before them. A name that
// could mean two tools means neither, except that an exact name means its own.
func newNames(all []string, prefixes []string) (names, error) {
	aliases, err := Aliases(all)
	if err != nil {
		return nil, err
	}
	n := names{}
	unsure := map[string]bool{}
	put := func(wire, tool string) {
		if other, there := n[wire]; there && other != tool {
			unsure[wire] = true
			return
		}
		n[wire] = tool
	}
	for _, tool := range all {
		for _, prefix := range prefixes {
			for _, shown := range []string{tool, undotted(tool), aliases[tool]} {
				if shown != "" {
					put(cutName(prefix+shown), tool)
				}
			}
		}
		if alias := aliases[tool]; alias != "" {
			put(alias, tool)
		}
	}
	maps.DeleteFunc(n, func(wire, _ string) bool { return unsure[wire] })
	for _, tool := range all {
		n[tool] = tool
	}
	return n, nil
}

func cutName(s string) string { return s[:min(len(s), longest)] }

// tool is the registry's name; false: it is none of ours.
func (n names) tool(wire string) (string, bool) {
	tool, ok := n[wire]
	return tool, ok
}
