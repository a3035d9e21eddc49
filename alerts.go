package placet

import (
	"context"
	"sync"
	"time"

	"github.com/placet-dev/placet/alert"
	"github.com/placet-dev/placet/record"
)

// openAlerts makes the watch over the log.
func (p *Placet) openAlerts() error {
	c := p.o.Config.Alerts
	limits := alert.Limits{Window: c.Window, UnknownAfter: c.UnknownAfter, Refusals: c.Refusals, DeniedAgain: c.DeniedAgain, AfterApproval: c.AfterApproval}
	for _, rule := range c.Off {
		limits.Off = append(limits.Off, record.AlertRule(rule))
	}
	for _, rule := range c.Hold {
		limits.Hold = append(limits.Hold, record.AlertRule(rule))
	}
	var err error
	p.alerts, err = alert.New(alert.Options{Records: p.store, Limits: limits, Sink: p.sink, People: p.people, Log: p.o.Log,
		Clock: func() time.Time { return p.o.Clock().UTC().Truncate(time.Microsecond) }})
	return err
}

// people is who is one person, by what is active.
func (p *Placet) people() *record.People {
	if active := p.boundary.Current(); active != nil {
		return active.People
	}
	return nil
}

// sink reports whether the registry says that a tool sends data out.
func (p *Placet) sink(name string) bool {
	active := p.boundary.Current()
	if active == nil {
		return false
	}
	t, ok := active.Registry.Tool(name)
	return ok && t.Sink
}

// Alerts is how often each rule over the log raised an alert since the start.
func (p *Placet) Alerts() map[record.AlertRule]int64 { return p.alerts.Counts() }

// follow starts what follows the log. Of several servers on one store one tells people.
func (p *Placet) follow(ctx context.Context) {
	tell := func(ctx context.Context) {
		var work sync.WaitGroup
		work.Go(func() { p.notices.Run(ctx) })
		work.Go(func() { p.alerts.Run(ctx) })
		work.Wait()
	}
	p.work.Go(func() {
		if s, shared := p.store.(interface {
			Lead(context.Context, func(context.Context))
		}); shared {
			s.Lead(ctx, tell)
			return
		}
		tell(ctx)
	})
	p.work.Go(func() { p.sealer.Run(ctx) })
	if p.o.Config.Telemetry.Metrics != "" {
		p.work.Go(func() { p.metrics.Run(ctx) })
	}
}
