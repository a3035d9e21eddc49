package dispatch

import "sync"

// moves tells who follows the log that there is something new in it.
type moves struct {
	mu   sync.Mutex
	next chan struct{} // nil: nobody asked since the last change
}

// Moved is closed at the next durable change of anything. Whoever wants to miss
// none asks before they read.
func (b *Boundary) Moved() <-chan struct{} {
	b.moves.mu.Lock()
	defer b.moves.mu.Unlock()
	if b.moves.next == nil {
		b.moves.next = make(chan struct{})
	}
	return b.moves.next
}

func (m *moves) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next != nil {
		close(m.next)
		m.next = nil
	}
}
