package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/placet-dev/placet/yamlfile"
)

// Checkpoint is how the event log is sealed (rule J4).
type Checkpoint struct {
	Every   time.Duration    `yaml:"every" default:"1s" doc:"How often new events are sealed under a checkpoint."`
	Late    time.Duration    `yaml:"late" default:"1m" doc:"This server is not ready while an event has waited longer than this."`
	Publish yamlfile.Strings `yaml:"publish" doc:"Where each checkpoint goes besides the store: file:PATH, to which a line is appended, or an https:// URL, to which it is posted. Keep it where who can write the store cannot write."`
}

// Check is the rules of checkpoints.
func (c *Checkpoint) Check(fail func(key, message string)) {
	if c.Every < 100*time.Millisecond || c.Every > time.Hour {
		fail("every", "must be at least 100ms and at most 1h")
	}
	if c.Late < 2*c.Every {
		fail("late", "must be at least twice every")
	}
	for _, target := range c.Publish {
		if path, ok := strings.CutPrefix(target, "file:"); ok && path != "" {
			continue
		}
		u, err := url.Parse(target)
		if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && !(u.Scheme == "http" && loopbackHost(u.Hostname())) {
			fail("publish", "wants file:PATH or an https:// URL without a user")
		}
	}
}

// Published is where checkpoints go: files, and addresses.
func (c *Config) Published() (files, urls []string) {
	for _, target := range c.Checkpoint.Publish {
		if path, ok := strings.CutPrefix(target, "file:"); ok {
			files = append(files, c.path(path))
		} else {
			urls = append(urls, target)
		}
	}
	return files, urls
}
