package issuer

import "time"

// shelf holds things until they expire, and no more than its size: what expires
// first makes room.
type shelf[T any] struct {
	held map[string]held[T]
	size int
}

type held[T any] struct {
	thing T
	until time.Time
}

func newShelf[T any](size int) *shelf[T] { return &shelf[T]{held: map[string]held[T]{}, size: size} }

func (s *shelf[T]) put(name string, thing T, now, until time.Time) {
	if len(s.held) >= s.size {
		s.makeRoom(now)
	}
	s.held[name] = held[T]{thing, until}
}

func (s *shelf[T]) makeRoom(now time.Time) {
	first := ""
	for name, h := range s.held {
		if !now.Before(h.until) {
			delete(s.held, name)
		} else if first == "" || h.until.Before(s.held[first].until) {
			first = name
		}
	}
	if len(s.held) >= s.size {
		delete(s.held, first)
	}
}

func (s *shelf[T]) get(name string, now time.Time) (thing T, ok bool) {
	h, ok := s.held[name]
	if !ok || !now.Before(h.until) {
		return thing, false
	}
	return h.thing, true
}

func (s *shelf[T]) drop(name string) { delete(s.held, name) }
