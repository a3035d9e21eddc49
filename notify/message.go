package notify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
)

const (
	shownText      = 200      // characters of a name or an effect in a message
	shownArguments = 1500     // of arguments in a message
	sentArguments  = 16 << 10 // bytes of arguments in a webhook
)

// noticeID is what a receiver knows a notice by: one for each receiver and thing
// that is told, so that it can drop what it has.
func noticeID(receiver, what string, reminder int) string {
	d := canon.Of("placet/notice/1", []byte(receiver), []byte(what), strconv.AppendInt(nil, int64(reminder), 10))
	return "msg_" + fmt.Sprintf("%x", d[:16])
}

// event is the body of a webhook, in the shape that the Standard Webhooks
// specification recommends.
type event struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of what is told, not of the sending
	Data      any       `json:"data"`
}

type principal struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// question is what a webhook is told of a question. There is no binding in it:
// whoever answers reads the question first, where answers are given.
type question struct {
	Approval  record.ApprovalID `json:"approval"`
	Call      record.CallID     `json:"call"`
	Run       record.RunID      `json:"run"`
	Tenant    record.TenantID   `json:"tenant"`
	Tool      string            `json:"tool"`
	Principal principal         `json:"principal"`
	Agent     record.AgentID    `json:"agent"`
	Reason    record.Code       `json:"reason"`
	Asked     time.Time         `json:"asked_at"`
	Expires   time.Time         `json:"expires_at"`
	Link      string            `json:"link"`
	Reminder  int               `json:"reminder"`
	Effect    string            `json:"effect,omitempty"`
	Arguments json.RawMessage   `json:"arguments,omitempty"`
	Left      int               `json:"arguments_left_out,omitempty"` // bytes of arguments that are too long to be sent
}

// raised is what a webhook is told of an alert.
type raised struct {
	record.Alert
	Seq    int64           `json:"seq"`
	Tenant record.TenantID `json:"tenant"`
	Run    record.RunID    `json:"run,omitempty"`
	Link   string          `json:"link"`
}

func (d *Desk) link(l dispatch.Loaded) string {
	return d.o.PublicURL + "/console/approvals/" + string(l.Approval.ID)
}

// question makes the body that tells a receiver of a question.
func (d *Desk) question(r *Receiver, l dispatch.Loaded, reminder int, now time.Time) ([]byte, error) {
	if r.Secret == nil {
		return message(d.questionText(r, l, reminder, now))
	}
	a, c := l.Approval, l.Call
	q := question{Approval: a.ID, Call: c.ID, Run: c.Run, Tenant: a.Tenant, Tool: c.Tool.Name, Agent: c.Agent,
		Principal: principal{c.Principal.Issuer, c.Principal.Subject},
		Reason:    a.Code, Asked: a.Asked, Expires: a.Expires, Link: d.link(l), Reminder: reminder}
	if r.ShowArguments {
		q.Effect = c.EffectText
		if len(c.Arguments) <= sentArguments {
			q.Arguments = c.Arguments
		} else {
			q.Left = len(c.Arguments)
		}
	}
	kind := "approval.requested"
	if reminder > 0 {
		kind = "approval.reminder"
	}
	return json.Marshal(event{Type: kind, Timestamp: a.Asked, Data: q})
}

// questionText is the same for a chat room. Only our own words are outside of quotes.
func (d *Desk) questionText(r *Receiver, l dispatch.Loaded, reminder int, now time.Time) string {
	a, c := l.Approval, l.Call
	var b strings.Builder
	if reminder > 0 {
		b.WriteString("*Reminder: a question still waits for an answer*\n")
	} else {
		b.WriteString("*A question waits for an answer*\n")
	}
	fmt.Fprintf(&b, "%s for %s, by %s. Asked because: %s. Open for %s, until %s.\n", quote(c.Tool.Name, shownText), quote(c.Principal.Subject, shownText),
		quote(string(c.Agent), shownText), strings.ReplaceAll(string(a.Code), "_", " "), left(max(0, int(a.Expires.Sub(now)/time.Minute))),
		a.Expires.UTC().Format("2006-01-02 15:04 UTC"))
	if r.ShowArguments {
		if c.EffectText != "" {
			fmt.Fprintf(&b, "Effect: %s\n", quote(c.EffectText, shownText))
		}
		fmt.Fprintf(&b, "Arguments: %s\n", quote(string(c.Arguments), shownArguments))
	}
	fmt.Fprintf(&b, "<%s|Read it and answer>", d.link(l))
	return b.String()
}

// alert makes the body that tells a receiver of an alert.
func (d *Desk) alert(r *Receiver, e record.Event, a record.Alert) ([]byte, error) {
	link := d.o.PublicURL + "/console/alerts"
	if r.Secret != nil {
		return json.Marshal(event{Type: "alert.raised", Timestamp: e.At, Data: raised{Alert: a, Seq: e.Seq, Tenant: e.Tenant, Run: e.Run, Link: link}})
	}
	return message(fmt.Sprintf("*Alert: %s* (tenant %s)\n%s: %s\n<%s|All alerts>", strings.ReplaceAll(string(a.Rule), "_", " "),
		quote(string(e.Tenant), shownText), quote(a.Subject, shownText), quote(a.Text, shownText), link))
}

// message is the body of an incoming webhook. Nothing in it makes a room fetch a link.
func message(text string) ([]byte, error) {
	return json.Marshal(struct {
		Text   string `json:"text"`
		Links  bool   `json:"unfurl_links"`
		Media  bool   `json:"unfurl_media"`
		Markup bool   `json:"mrkdwn"`
	}{Text: text, Markup: true})
}
