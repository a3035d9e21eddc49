package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// remote lets so many callers of another process call for a while, and counts.
type remote = func(ctx context.Context, callers int, d time.Duration) (int64, time.Duration, error)

// side is one of the two that are compared: it makes one call, or one whole step,
// for a caller.
type side struct {
	name string
	call func(ctx context.Context, caller int) error
	// remote, when set, drives the callers in another process.
	remote remote
	rate   []float64 // calls a second, by round
	made   int64
}

// race measures sides in turn, A B, B A and so on, each for a while with so many
// callers at the same time. What disturbs the machine disturbs neighbours alike.
func race(ctx context.Context, callers, rounds int, each time.Duration, sides ...*side) error {
	for _, s := range sides { // warm: connections, statements, caches
		if _, _, err := s.drive(ctx, callers, each/4); err != nil {
			return err
		}
	}
	for round := range rounds {
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			n, took, err := s.drive(ctx, callers, each)
			if err != nil {
				return err
			}
			s.rate = append(s.rate, float64(n)/took.Seconds())
		}
	}
	return nil
}

// drive lets callers call for a while and counts.
func (s *side) drive(ctx context.Context, callers int, d time.Duration) (int64, time.Duration, error) {
	if s.remote != nil {
		n, took, err := s.remote(ctx, callers, d)
		s.made += n
		return n, took, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var made atomic.Int64
	var work sync.WaitGroup
	begin := time.Now()
	for caller := range callers {
		work.Go(func() {
			for again := true; again; again = time.Since(begin) < d && ctx.Err() == nil {
				if err := s.call(ctx, caller); err != nil {
					cancel(err)
					return
				}
				made.Add(1)
			}
		})
	}
	work.Wait()
	took := time.Since(begin)
	s.made += made.Load()
	if err := context.Cause(ctx); err != nil {
		return 0, took, errors.Join(errors.New(s.name), err)
	}
	return made.Load(), took, nil
}

// over is the median of the rounds' own ratios of a's rate to b's.
func over(a, b *side) float64 {
	ratios := make([]float64, len(a.rate))
	for i := range ratios {
		ratios[i] = a.rate[i] / b.rate[i]
	}
	return median(ratios)
}

// spread shows the rounds' rates in thousands, for whoever wonders about a figure.
func (s *side) spread() string {
	values := slices.Sorted(slices.Values(s.rate))
	if len(values) == 0 {
		return "none"
	}
	return fmt.Sprintf("%.0f to %.0f", values[0], values[len(values)-1])
}

func median[T int64 | float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
