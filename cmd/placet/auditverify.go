package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/edge/api"
	"github.com/placet-dev/placet/record"
)

type auditExport struct {
	serverFlags
	After int64  `placeholder:"SIZE" help:"Go on from the checkpoint of this many events."`
	Out   string `short:"o" placeholder:"FILE" help:"Write to a file, which must not be there (default: standard output)."`
}

func (c auditExport) Run(ctx context.Context, p *program) (err error) {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	res, err := client.send(ctx, http.MethodGet, "/v1/audit/export", query("after", strconv.FormatInt(c.After, 10)), nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	out := p.stdout
	if c.Out != "" {
		f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		return record.Because(record.Unavailable, err, "the export ended before its end; what was written is not whole")
	}
	return nil
}

type auditReceipt struct {
	serverFlags
	Of string `arg:"" name:"event-or-call" help:"The number of an event, or the ID of a call."`
}

func (c auditReceipt) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	path := "/v1/calls/" + url.PathEscape(c.Of) + "/receipt"
	if _, err := strconv.ParseInt(c.Of, 10, 64); err == nil {
		path = "/v1/events/" + c.Of + "/receipt"
	}
	var receipt audit.Receipt
	if err := client.ask(ctx, http.MethodGet, path, nil, nil, &receipt); err != nil {
		return err
	}
	return writeJSON(p.stdout, receipt)
}

type auditCheckpoint struct {
	serverFlags
	Key bool `help:"Print the log's public key alone."`
}

func (c auditCheckpoint) Run(ctx context.Context, p *program) error {
	client, err := p.client(ctx, c.serverFlags)
	if err != nil {
		return err
	}
	var view api.CheckpointView
	if err := client.ask(ctx, http.MethodGet, "/v1/audit/checkpoint", nil, nil, &view); err != nil {
		return err
	}
	return p.out(view, func() {
		if c.Key {
			p.say("%s", safe(view.Key))
			return
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(view.Checkpoint, "\n"), "\n") {
			p.say("%s", safe(line))
		}
	})
}

type auditVerify struct {
	File  string   `arg:"" help:"An export or a receipt; - for standard input."`
	Key   string   `placeholder:"KEY" help:"The log's public key, as placet audit checkpoint --key prints it, or a file that holds it. Without it, the file's own word is taken, which shows that it is whole and not whose it is."`
	Since []string `placeholder:"FILE" help:"Checkpoints that were kept outside: the export must hold all that they hold. May be given several times."`
}

// verifiedView is what a verification found.
type verifiedView struct {
	Verified    bool        `json:"verified"`
	Fault       audit.Fault `json:"fault,omitempty"`
	Text        string      `json:"text,omitempty"`
	Log         string      `json:"log,omitempty"`
	Tenant      string      `json:"tenant,omitempty"`
	From        int64       `json:"from"`
	Size        int64       `json:"size"`
	Events      int         `json:"events"`
	Hidden      int         `json:"hidden"`
	Checkpoints int         `json:"checkpoints"`
	Epoch       int64       `json:"epoch"`
	Known       int         `json:"known"`
	OwnKey      bool        `json:"own_key"`
	Sealed      *time.Time  `json:"sealed_at,omitempty"`
}

func (c auditVerify) Run(_ context.Context, p *program) error {
	text, err := p.input(c.File)
	if err != nil {
		return err
	}
	keys, err := c.keys()
	if err != nil {
		return err
	}
	var since []string
	for _, file := range c.Since {
		kept, err := p.input(file)
		if err != nil {
			return err
		}
		known, err := audit.Checkpoints(kept)
		if err != nil {
			return err
		}
		since = append(since, known...)
	}
	view, err := verifyText(text, keys, since)
	var broken *audit.Broken
	if err != nil && !errors.As(err, &broken) {
		return err
	}
	view.Verified = err == nil
	if broken != nil {
		view.Fault, view.Text = broken.Fault, broken.Text
	}
	if err := p.out(view, func() { p.proved(view) }); err != nil {
		return err
	}
	if broken != nil {
		return &verdict{code: exitNo, message: broken.Error(), quiet: p.json}
	}
	return nil
}

func (p *program) input(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(p.stdin)
	}
	return os.ReadFile(file)
}

// keys reads the key, or the file that it names; nil where none was given.
func (c auditVerify) keys() (note.Verifiers, error) {
	if c.Key == "" {
		return nil, nil
	}
	if !strings.Contains(c.Key, "+") || strings.ContainsAny(c.Key, "/\\") {
		text, err := os.ReadFile(c.Key)
		if err == nil {
			return audit.Verifiers(string(text))
		}
		if !strings.Contains(c.Key, "+") {
			return nil, err
		}
	}
	return audit.Verifiers(c.Key)
}

func verifyText(text []byte, keys note.Verifiers, since []string) (view verifiedView, err error) {
	var kind struct {
		Receipt int `json:"placet_receipt"`
	}
	if json.Unmarshal(text, &kind) == nil && kind.Receipt > 0 {
		if len(since) > 0 {
			return view, record.Errorf(record.Invalid, "--since goes with an export; a receipt holds no more than its events")
		}
		events, at, err := audit.VerifyReceipt(text, keys)
		return verifiedView{Log: at.Origin, Size: at.Size, Events: len(events), Checkpoints: 1, Epoch: at.Epoch, OwnKey: keys == nil, Sealed: &at.Time}, err
	}
	v, err := audit.Verify(bytes.NewReader(text), keys, since)
	view = verifiedView{Log: v.Origin, From: v.From, Size: v.Size, Events: v.Events, Hidden: v.Hidden, Checkpoints: v.Checkpoints, Epoch: v.Epoch, Known: v.Known, OwnKey: v.OwnKey}
	if v.Tenant != nil {
		view.Tenant = string(*v.Tenant)
	}
	if v.Checkpoints > 0 {
		view.Sealed = &v.Newest.Time
	}
	return view, err
}

func (p *program) proved(v verifiedView) {
	if !v.Verified {
		return // the error says it
	}
	p.say("verified: %d events of %d in the log %s, %d of others as hashes, %d checkpoints, epoch %d", v.Events, v.Size, safe(v.Log), v.Hidden, v.Checkpoints, v.Epoch)
	if v.Sealed != nil {
		p.say("sealed at %s", v.Sealed.UTC().Format(time.RFC3339))
	}
	if v.Known > 0 {
		p.say("holds all that %d checkpoints from elsewhere hold", v.Known)
	}
	if v.OwnKey {
		p.warn("the key is the file's own word; give the log's with --key")
	}
}
