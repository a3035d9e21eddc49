package config

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/yamlfile"
)

// Receiver is somewhere that links to questions are sent. Nobody can answer from there.
type Receiver struct {
	Name    string           `yaml:"name" doc:"What records call it; another name is another receiver. Default: its kind and for."`
	For     yamlfile.Strings `yaml:"for,required" doc:"Whose questions: group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER."`
	Tenants []string         `yaml:"tenants" doc:"Only questions of these tenants."`
	Address

	ShowArguments bool   `yaml:"show_arguments" doc:"Send the arguments and the effect in words too; without it, nothing of them leaves."`
	Remind        Remind `yaml:"remind" default:"50%" doc:"How long after it was told last it is told again, while those in for have not answered: a time such as 30m, or a share of the question's life."`
	Reminders     int    `yaml:"reminders" default:"1" doc:"How often it is told again at most; 0: never."`
}

// Address is where notices go: a chat room, or a program.
type Address struct {
	Slack   yamlfile.SecretRef `yaml:"slack" doc:"Reference to the URL of a Slack-compatible incoming webhook, which is a secret: env:NAME or file:PATH; or"`
	Webhook string             `yaml:"webhook" doc:"the URL of a program that takes webhooks (Standard Webhooks), with"`
	Secret  yamlfile.SecretRef `yaml:"secret" doc:"reference to the secret that signs them, whsec_ and base64: env:NAME or file:PATH."`
}

// in makes references to files mean files in folder.
func (a *Address) in(folder string) { a.Slack, a.Secret = a.Slack.In(folder), a.Secret.In(folder) }

// kind is for names.
func (a Address) kind() string {
	if a.Webhook != "" {
		return "webhook"
	}
	return "slack"
}

func (a Address) check(fail func(key, message string), optional bool) {
	switch {
	case optional && a.Slack.IsZero() && a.Webhook == "" && a.Secret.IsZero():
	case !optional && a.Slack.IsZero() == (a.Webhook == ""):
		fail("", "wants either slack or webhook")
	case (a.Webhook == "") != a.Secret.IsZero():
		fail("webhook", "goes with secret, which signs what is sent")
	case a.Webhook != "":
		if err := CheckAddress(a.Webhook); err != nil {
			fail("webhook", err.Error())
		}
	}
}

// CheckAddress says what is wrong with where notices go. It does not repeat it:
// that of a chat room is a secret.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("wants a URL such as https://hooks.example.com/placet")
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		return errors.New("must be https beyond this machine")
	}
	return nil
}

// Check is the rules of a receiver.
func (r *Receiver) Check(fail func(key, message string)) {
	checkPeople(r.For, func(message string) { fail("for", message) })
	r.Address.check(fail, false)
	if r.Reminders > 20 {
		fail("reminders", "must be at most 20")
	}
}

// checkPeople checks references to whom to ask.
func checkPeople(refs []string, fail func(message string)) {
	for _, r := range refs {
		kind, name, ok := strings.Cut(r, ":")
		at := strings.LastIndex(name, "@")
		if ok && kind == "group" && name != "" && at != 0 || ok && kind == "principal" && at > 0 && at < len(name)-1 {
			continue
		}
		fail("wants group:NAME, group:NAME@ISSUER or principal:SUBJECT@ISSUER")
	}
}

// Remind is a span, or a share of a question's life.
type Remind struct {
	After time.Duration
	Share int // percent; used where After is 0
}

// UnmarshalText reads 30m or 50%.
func (r *Remind) UnmarshalText(text []byte) error {
	if share, ok := strings.CutSuffix(string(text), "%"); ok {
		n, err := strconv.Atoi(share)
		if err != nil || n < 5 || n > 95 {
			return errors.New("wants a share from 5% to 95%")
		}
		*r = Remind{Share: n}
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < time.Minute {
		return errors.New("wants a time of 1m or more such as 30m, or a share of the question's life such as 50%")
	}
	*r = Remind{After: d}
	return nil
}

// Of is how long after the last notice of a question the next one is due.
func (r Remind) Of(life time.Duration) time.Duration {
	if r.After > 0 {
		return r.After
	}
	return life / 100 * time.Duration(r.Share)
}

// checkReceivers gives receivers their names and compares them.
func (c *Config) checkReceivers(fail func(key, message string)) {
	names := map[string]bool{"alerts slack": true, "alerts webhook": true}
	for i := range c.Approvals.Notify {
		r := &c.Approvals.Notify[i]
		if r.Name == "" {
			r.Name = r.kind() + " " + strings.Join(r.For, " ")
		}
		if names[r.Name] {
			fail("approvals", fmt.Sprintf("has two receivers named %q; give each a name of its own", r.Name))
		}
		names[r.Name] = true
	}
}

// Alerts is what the fixed rules over the log look for, and who hears of it.
type Alerts struct {
	Window        time.Duration `yaml:"window" default:"1h" doc:"Within which the rules count, and in which an alert is raised once for its subject."`
	UnknownAfter  time.Duration `yaml:"unknown_after" default:"15m" doc:"How long an outcome may be unknown until it is an alert."`
	Refusals      int           `yaml:"refusals" default:"5" doc:"Refused paths, addresses and other guarded values of one principal, or in one lineage, that are an alert."`
	DeniedAgain   int           `yaml:"denied_again" default:"3" doc:"Calls after a denial by policy or guard, for the same target with other arguments, that are an alert. After a person's rejection the first one is."`
	AfterApproval int           `yaml:"calls_after_approval" default:"10" doc:"Calls of an approved tool in the same lineage that are allowed to follow; one more is an alert."`
	Off           []AlertRule   `yaml:"off" doc:"Rules that raise nothing."`
	Address
	Hold []AlertRule `yaml:"hold" doc:"Rules whose alert also holds the lineage of its evidence: nothing in it changes anything until an operator lifts the hold."`
}

// Name is what records call one of the addresses that alerts go to.
func (*Alerts) Name(of Address) string { return "alerts " + of.kind() }

// AlertRule is one of the fixed rules.
type AlertRule string

func (AlertRule) Choices() []string {
	return []string{"approved_never_run", "no_approver", "unreachable", "unknown_waiting", "refusals", "tried_again", "followed_by_calls", "sensitive_then_sink"}
}

// Check is the rules of alerts.
func (a *Alerts) Check(fail func(key, message string)) {
	a.Address.check(fail, true)
	for key, d := range map[string]time.Duration{"window": a.Window, "unknown_after": a.UnknownAfter} {
		if d < time.Minute || d > 24*time.Hour {
			fail(key, "must be at least 1m and at most 24h")
		}
	}
	for key, n := range map[string]int{"refusals": a.Refusals, "denied_again": a.DeniedAgain, "calls_after_approval": a.AfterApproval} {
		if n < 1 || n > 1000 {
			fail(key, "must be at least 1 and at most 1000")
		}
	}
}
