package main

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/policy/rego"
	"github.com/placet-dev/placet/record"
)

type policyCommand struct {
	New     policyNew     `cmd:"" help:"Write a policy layer to start from."`
	Test    policyTest    `cmd:"" help:"Run the fixtures and tests of policy layers."`
	Explain policyExplain `cmd:"" help:"Say what each layer decides about a call, with file and line."`

	Versions policyVersions `cmd:"" help:"List what was activated."`
	Activate policyActivate `cmd:"" help:"Send files of this machine to a server and activate them, or go back to an earlier version."`
	Report   policyReport   `cmd:"" help:"Say what rules that only observe would have denied or asked."`
	Diff     policyDiff     `cmd:"" help:"Have recorded calls judged by two versions, and say which verdicts change."`
}

type policyNew struct {
	Folder string `arg:"" help:"Folder of the new layer."`
}

func (c policyNew) Run(p *program) error {
	files, err := rego.Template()
	if err != nil {
		return err
	}
	texts := map[string][]byte{}
	for name, text := range files {
		texts[filepath.FromSlash(name)] = text
	}
	if err := writeNew(c.Folder, texts); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		path := filepath.Join(c.Folder, name)
		if err := p.out(written{path}, func() { p.say("wrote %s", path) }); err != nil {
			return err
		}
	}
	p.say("\nTest it with placet policy test %s, and name it in placet.yaml:\n  policy:\n    layers:\n      - {name: %s, files: %s}", c.Folder, layerName(c.Folder), c.Folder)
	return nil
}

// layerName is a name for the layer of a folder.
func layerName(folder string) string {
	name := strings.ToLower(filepath.Base(filepath.Clean(folder)))
	if name == "." || name == "/" || name == ".." {
		return "layer"
	}
	return name
}

type policyTest struct {
	configFlag
	Folders []string `arg:"" optional:"" name:"folder" help:"Layers to test (default: those of the configuration)."`
}

// testTime bounds one fixture. It is not the time of a decision: tests are
// watched for coverage, which takes several times as long.
const testTime = 10 * time.Second

// layerReport is what testing one layer came to.
type layerReport struct {
	Layer  string `json:"layer"`
	Passed bool   `json:"passed"`
	*rego.Report
}

func (c policyTest) Run(ctx context.Context, p *program) error {
	sources, err := c.sources()
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return record.Errorf(record.NotFound, "the configuration names no policy layer; name a folder, or start one with: placet policy new")
	}
	failed := 0
	for _, s := range sources {
		r, err := rego.New().TestLayer(ctx, s, testTime)
		if err != nil {
			return err
		}
		if !r.Passed() {
			failed++
		}
		report := layerReport{s.Name, r.Passed(), r}
		if err := p.out(report, func() { p.tested(report) }); err != nil {
			return err
		}
	}
	if failed > 0 {
		return no("%d of %d policy layers failed", failed, len(sources))
	}
	return nil
}

func (c policyTest) sources() ([]rego.Source, error) {
	var out []rego.Source
	for _, f := range c.Folders {
		files, err := rego.ReadFiles(f)
		if err != nil {
			return nil, err
		}
		out = append(out, rego.Source{Name: layerName(strings.TrimSuffix(f, ".rego")), Files: files})
	}
	if len(c.Folders) > 0 {
		return c.asConfigured(out)
	}
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	for _, l := range cfg.Policy.Layers {
		files, err := layerFiles(l)
		if err != nil {
			return nil, err
		}
		out = append(out, rego.Source{Name: l.Name, Files: files, Query: l.Query})
	}
	return out, nil
}

// asConfigured gives folders that the configuration names its entry points.
// There need be no configuration.
func (c policyTest) asConfigured(sources []rego.Source) ([]rego.Source, error) {
	cfg, err := config.Load(c.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return sources, nil
	}
	if err != nil {
		return nil, err
	}
	for i, f := range c.Folders {
		absolute, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		for _, l := range cfg.Policy.Layers {
			if len(l.Files) == 1 && l.Files[0] == absolute {
				sources[i].Name, sources[i].Query = l.Name, l.Query
			}
		}
	}
	return sources, nil
}

// layerFiles reads the files of a configured layer.
func layerFiles(l config.Layer) (rego.Files, error) {
	files := rego.Files{}
	for _, name := range l.Files {
		some, err := rego.ReadFiles(name)
		if err != nil {
			return nil, err
		}
		maps.Copy(files, some)
	}
	return files, nil
}

// tested prints a report for people.
func (p *program) tested(r layerReport) {
	passed := 0
	for _, f := range r.Results {
		mark := "FAILED"
		if f.Passed {
			mark, passed = "passed", passed+1
		}
		p.say("%s  %s: %s (%s)", mark, safe(f.Fixture), f.Got, safe(strings.Join(f.Rules, " ")))
	}
	for _, problem := range r.Problems {
		place := problem.Place
		if !strings.HasPrefix(place, r.Layer+"/") {
			place = r.Layer + "/" + place
		}
		p.say("%s: %s", safe(place), safe(problem.Message))
	}
	for _, file := range slices.Sorted(maps.Keys(r.Coverage)) {
		c := r.Coverage[file]
		line := "coverage  " + file + "  " + strconv.FormatFloat(c.Percent, 'f', 1, 64) + " %"
		if len(c.Missed) > 0 {
			line += "  not reached: " + lineList(c.Missed)
		}
		p.say("%s", safe(line))
	}
	word := "passed"
	if !r.Passed {
		word = "FAILED"
	}
	p.say("layer %s %s: %d of %d fixtures, %d tests, %d problems", safe(r.Layer), word, passed, len(r.Results), r.RegoTests, len(r.Problems))
}

func lineList(lines []int) string {
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = strconv.Itoa(l)
	}
	return strings.Join(words, ", ")
}
