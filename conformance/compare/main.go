// Compare reads what the conformance suite wrote of two runs, one directly
// against a server and one through the gateway, and fails if something passes
// directly and not through, unless the baseline names it with a reason.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// never lists what no baseline may excuse: the checks on which the security of a
// gateway rests.
var never = []string{
	"dns-rebinding-protection", "http-header-validation", "http-custom-header-server-validation", "server-stateless",
	"input-required-result-tampered-state", "input-required-result-capability-check", "input-required-result-validate-input",
	"caching", "json-schema-2020-12",
}

// Exception is one line of the baseline.
type Exception struct {
	Scenario string `yaml:"scenario"`
	Check    string `yaml:"check"` // empty: all checks of the scenario
	Reason   string `yaml:"reason"`
}

func main() {
	revision := flag.String("revision", "", "protocol revision of the runs")
	scored := flag.String("scored", "", "file with the suite's list of required scenarios")
	direct := flag.String("direct", "", "folder of the direct run")
	through := flag.String("through", "", "folder of the run through the gateway")
	client := flag.String("client", "", "folder of a client run; instead of the two")
	baseline := flag.String("baseline", "", "file of exceptions")
	flag.Parse()
	var ok bool
	var err error
	if *client != "" {
		ok, err = clients(os.Stdout, *revision, *scored, *client)
	} else {
		ok, err = compare(os.Stdout, *revision, *scored, *direct, *through, *baseline)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// outcomes is scenario, then check, then whether all its instances passed.
type outcomes map[string]map[string]bool

var runFolder = regexp.MustCompile(`^(?:server-)?(.+)-\d{4}-\d{2}-\d{2}T`)

func read(dir string) (outcomes, error) {
	folders, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if within, _ := filepath.Glob(filepath.Join(dir, "auth", "*", "checks.json")); err == nil {
		folders = append(folders, within...)
	}
	if err != nil || len(folders) == 0 {
		return nil, fmt.Errorf("no results in %s", dir)
	}
	out := outcomes{}
	for _, f := range folders {
		m := runFolder.FindStringSubmatch(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(f)), filepath.ToSlash(dir)+"/"))
		if m == nil {
			return nil, fmt.Errorf("%s is of no scenario", f)
		}
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var checks []struct{ ID, Status string }
		if err := json.Unmarshal(text, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if out[m[1]] == nil {
			out[m[1]] = map[string]bool{}
		}
		for _, c := range checks {
			passed := c.Status != "FAILURE"
			if was, seen := out[m[1]][c.ID]; seen {
				passed = passed && was
			}
			out[m[1]][c.ID] = passed
		}
	}
	return out, nil
}

func (o outcomes) passes(scenario string) bool {
	checks, ran := o[scenario]
	for _, passed := range checks {
		ran = ran && passed
	}
	return ran
}

var listed = regexp.MustCompile(`(?m)^\s+- (\S+)`)

// readScored takes the scenarios of one kind from the suite's own list.
func readScored(file, from, to string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, rest, found := bytes.Cut(text, []byte(from))
	rest, _, _ = bytes.Cut(rest, []byte(to))
	var out []string
	for _, m := range listed.FindAllSubmatch(rest, -1) {
		out = append(out, string(m[1]))
	}
	if !found || len(out) == 0 {
		return nil, fmt.Errorf("%s lists no scenarios after %q", file, from)
	}
	return out, nil
}

func compare(w io.Writer, revision, scoredFile, directDir, throughDir, baselineFile string) (bool, error) {
	scored, err := readScored(scoredFile, "Server scenarios", "Client scenarios")
	if err != nil {
		return false, err
	}
	direct, err := read(directDir)
	if err != nil {
		return false, err
	}
	through, err := read(throughDir)
	if err != nil {
		return false, err
	}
	exceptions, err := readBaseline(baselineFile)
	if err != nil {
		return false, err
	}
	problems, used := judge(direct, through, exceptions[revision])
	for _, e := range exceptions[revision] {
		switch {
		case slices.Contains(never, e.Scenario):
			problems = append(problems, e.Scenario+": no baseline may excuse this")
		case e.Reason == "":
			problems = append(problems, e.Scenario+": the baseline gives no reason")
		case !used[e]:
			problems = append(problems, strings.TrimSuffix(e.Scenario+":"+e.Check, ":")+": the baseline excuses what does not fail")
		}
	}
	passed := 0
	for _, s := range scored {
		if through.passes(s) {
			passed++
		}
	}
	for _, p := range problems {
		fmt.Fprintln(w, "  "+p)
	}
	fmt.Fprintf(w, "conformance: %s scored %d/%d, %d exceptions with a reason, %d problems\n", revision, passed, len(scored), len(used), len(problems))
	return len(problems) == 0, nil
}

func readBaseline(file string) (map[string][]Exception, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var exceptions map[string][]Exception
	if err := yaml.UnmarshalWithOptions(text, &exceptions, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return exceptions, nil
}

// clients judges a run of the client scenarios: every required one of auth/ must
// pass, and no baseline excuses any. The others are of what a client itself does.
func clients(w io.Writer, revision, scoredFile, dir string) (bool, error) {
	scored, err := readScored(scoredFile, "Client scenarios", "Run and reported")
	if err != nil {
		return false, err
	}
	got, err := read(dir)
	if err != nil {
		return false, err
	}
	scored = slices.DeleteFunc(scored, func(s string) bool { return !strings.HasPrefix(s, "auth/") })
	passed := 0
	for _, s := range scored {
		if got.passes(s) {
			passed++
		} else {
			fmt.Fprintf(w, "  %s fails as a client\n", s)
		}
	}
	fmt.Fprintf(w, "conformance: client %s scored %d/%d of auth/*\n", revision, passed, len(scored))
	return passed == len(scored) && passed > 0, nil
}

// judge finds what passes directly and not through. The suite's own check of the
// schema belongs to each scenario that it runs in.
func judge(direct, through outcomes, exceptions []Exception) (problems []string, used map[Exception]bool) {
	used = map[Exception]bool{}
	for scenario, checks := range direct {
		for check, passes := range checks {
			got, ran := through[scenario][check]
			if !passes || ran && got {
				continue
			}
			i := slices.IndexFunc(exceptions, func(e Exception) bool {
				return e.Scenario == scenario && (e.Check == "" || e.Check == check)
			})
			if i < 0 {
				what := "fails"
				if !ran {
					what = "is not reached"
				}
				problems = append(problems, fmt.Sprintf("%s:%s passes directly and %s through Placet", scenario, check, what))
				continue
			}
			used[exceptions[i]] = true
		}
	}
	slices.Sort(problems)
	return problems, used
}
