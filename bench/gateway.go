package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/placet-dev/placet/config"
)

const gatewayCallers = 16

// street is the processes of the gateway measurement: one upstream, and before it
// a bare proxy, the same with a tuned garbage collector, and Placet.
type street struct {
	upstream, proxy, tuned, placet *process
	dir                            string // Placet's
	direct, bare, gc400, ours      *side
}

// gateway measures gateway_vs_passthrough and gateway_added_p50.
func (b *bench) gateway(ctx context.Context) (err error) {
	s, err := b.build(ctx)
	defer func() { err = errors.Join(err, s.placet.stop(), s.tuned.stop(), s.proxy.stop(), s.upstream.stop()) }()
	if err != nil {
		return err
	}
	rounds, each := b.rounds()
	if err := race(ctx, gatewayCallers, rounds, each, s.bare, s.ours, s.gc400); err != nil {
		return err
	}
	b.ratio("gateway_vs_passthrough", over(s.ours, s.bare), target{least: 1.0})
	b.say("  calls/s at %d callers, median of %d rounds: placet %.0f (%s), go-sdk pass-through %.0f (%s) (reported, not asserted)",
		gatewayCallers, rounds, median(s.ours.rate), s.ours.spread(), median(s.bare.rate), s.bare.spread())
	b.say("  against the same pass-through with GOGC=400, as placet serve sets it: %.0f (%s) calls/s, ratio %.2f (reported, not asserted)",
		median(s.gc400.rate), s.gc400.spread(), over(s.ours, s.gc400))
	if err := b.latency(ctx, s); err != nil {
		return err
	}
	ran, err := count(ctx, s.upstream.address)
	if made := s.ours.made + s.bare.made + s.gc400.made + s.direct.made; err == nil && ran != made {
		err = fmt.Errorf("%d calls were answered and the tool ran %d times", made, ran)
	} else if err == nil {
		b.say("  %d calls were made, all reached the tool", made)
	}
	return err
}

func (b *bench) build(ctx context.Context) (*street, error) {
	s := &street{}
	l, err := listen()
	if err != nil {
		return s, err
	}
	if s.upstream, err = b.start(roleUpstream, "", l); err != nil {
		return s, err
	}
	upstream := "http://" + s.upstream.address + "/mcp"
	if l, err = listen(); err != nil {
		return s, err
	}
	if s.proxy, err = b.start(roleProxy, upstream, l); err != nil {
		return s, err
	}
	if l, err = listen(); err != nil {
		return s, err
	}
	if s.tuned, err = b.start(roleTuned, upstream, l); err != nil {
		return s, err
	}
	if l, err = listen(); err != nil {
		return s, err
	}
	if s.dir, err = b.configure(ctx, "gateway", l.Addr().String(), upstream); err != nil {
		return s, err
	}
	if s.placet, err = b.start(rolePlacet, s.dir, l); err != nil {
		return s, err
	}
	tokens, err := tokensFor(s.dir, gatewayCallers)
	if err != nil {
		return s, err
	}
	s.direct = &side{name: "direct", call: newAgent(upstream, nil).call}
	s.bare = &side{name: "go-sdk pass-through", call: newAgent("http://"+s.proxy.address+"/mcp", nil).call}
	s.gc400 = &side{name: "go-sdk pass-through, GOGC=400", call: newAgent("http://"+s.tuned.address+"/mcp", nil).call}
	s.ours = &side{name: "placet", call: newAgent("http://"+s.placet.address+"/mcp", tokens).call}
	return s, nil
}

// tokensFor signs a token for each caller.
func tokensFor(dir string, n int) ([]string, error) {
	c, err := config.Load(filepath.Join(dir, "placet.yaml"))
	if err != nil {
		return nil, err
	}
	issuer, err := loadIssuer(dir)
	if err != nil {
		return nil, err
	}
	out := make([]string, n)
	for i := range out {
		if out[i], err = token(issuer, c.Audience(), i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// latency compares what Placet adds to one caller's call with what it must: two
// commits and one call more. The commits are those of the rows of a call, made
// barely, on the same disk, in between.
func (b *bench) latency(ctx context.Context, s *street) (err error) {
	rows, err := readTemplate(filepath.Join(s.dir, "state.db"))
	if err != nil {
		return err
	}
	store, err := openRaw(ctx, filepath.Join(b.dir, "latency.db"), rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	commits := &side{name: "two commits", call: store.call}
	took := map[*side][]time.Duration{}
	calls := 1500
	if b.short {
		calls = 100
	}
	for n := range calls + 20 {
		for _, x := range []*side{s.direct, s.ours, commits} {
			begin := time.Now()
			if err := x.call(ctx, 0); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			x.made++
			if n >= 20 { // the first ones warm up
				took[x] = append(took[x], time.Since(begin))
			}
		}
	}
	direct, ours, two := median(took[s.direct]), median(took[s.ours]), median(took[commits])
	b.ratio("gateway_added_p50", float64(ours-direct)/float64(two+direct), target{most: 1.5})
	b.say("  medians of %d calls of one caller: direct %s, through placet %s, two commits %s (reported, not asserted)",
		calls, direct.Round(time.Microsecond), ours.Round(time.Microsecond), two.Round(time.Microsecond))
	return nil
}
