package placet

import (
	"time"

	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/notify"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/yamlfile"
)

// openNotices makes the desk that tells people of questions, and operators of alerts.
func (p *Placet) openNotices() error {
	receivers, err := p.receivers()
	if err != nil {
		return err
	}
	p.notices, err = notify.New(notify.Options{Records: p.store, Receivers: receivers, People: p.people, PublicURL: p.o.Config.PublicURL, HTTP: p.o.HTTP,
		Clock: func() time.Time { return p.o.Clock().UTC().Truncate(time.Microsecond) }, Log: p.o.Log})
	return err
}

// receivers are those that the configuration names. Secrets are read for each
// sending, and once now, so that a mistake is found at the start.
func (p *Placet) receivers() ([]notify.Receiver, error) {
	c := p.o.Config
	var receivers []notify.Receiver
	for _, r := range c.Approvals.Notify {
		out, err := p.receiver(r.Name, r.Address)
		if err != nil {
			return nil, err
		}
		for _, ref := range r.For {
			if err := p.approver(ref, &out.For); err != nil {
				return nil, record.Errorf(record.Invalid, "approvals.notify %q: %w", r.Name, err)
			}
		}
		out.Tenants = tenantsOf(r.Tenants)
		out.ShowArguments, out.Reminders, out.Remind = r.ShowArguments, r.Reminders, r.Remind.Of
		receivers = append(receivers, out)
	}
	for _, a := range []config.Address{{Slack: c.Alerts.Slack}, {Webhook: c.Alerts.Webhook, Secret: c.Alerts.Secret}} {
		if a.Slack.IsZero() && a.Webhook == "" {
			continue
		}
		out, err := p.receiver(c.Alerts.Name(a), a)
		if err != nil {
			return nil, err
		}
		out.Alerts = true
		receivers = append(receivers, out)
	}
	return receivers, nil
}

// receiver makes a receiver of an address.
func (p *Placet) receiver(name string, a config.Address) (notify.Receiver, error) {
	read := func(ref yamlfile.SecretRef) func() (string, error) {
		return func() (string, error) { return ref.Read(p.o.LookupEnv, p.o.ReadFile) }
	}
	out := notify.Receiver{Name: name}
	if a.Webhook == "" {
		out.Address = func() (string, error) {
			address, err := read(a.Slack)()
			if err == nil {
				err = config.CheckAddress(address)
			}
			return address, err
		}
		if _, err := out.Address(); err != nil {
			return out, record.Errorf(record.Invalid, "the address of %q: %w", name, err)
		}
		return out, nil
	}
	out.Address = func() (string, error) { return a.Webhook, nil }
	out.Secret = read(a.Secret)
	secret, err := out.Secret()
	if err == nil {
		err = notify.CheckSecret(secret)
	}
	if err != nil {
		return out, record.Errorf(record.Invalid, "the secret of %q: %w", name, err)
	}
	return out, nil
}

func tenantsOf(names []string) (out []record.TenantID) {
	for _, n := range names {
		out = append(out, record.TenantID(n))
	}
	return out
}

// Notices is how those fared that are told of questions and alerts, by name, since
// the start.
func (p *Placet) Notices() map[string]notify.Count { return p.notices.Counts() }
