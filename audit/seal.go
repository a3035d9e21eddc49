package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/placet-dev/placet/record"
)

// Options is what a sealer is made of. Log, Apply and Key are required.
type Options struct {
	Log     Log
	Apply   func(context.Context, record.Change) error
	Key     Key
	NewKey  bool          // go on from a checkpoint that another key signed: a new epoch begins
	Every   time.Duration // how often it looks for new events; 0 is 1 s
	Publish []Target      // where checkpoints go besides the store

	Clock  func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
	Logger *slog.Logger     // nil: none
}

// most is how many events one checkpoint adds at most.
const most = 4096

// Sealer gives committed events their leaves. Any number of them may work on one
// store: the guarded change decides whose checkpoint follows, and the others go on from it.
type Sealer struct {
	o     Options
	epoch int64 // of the store when this was made

	mu        sync.Mutex
	published map[Target]int64 // size of the last checkpoint that went there
	failing   time.Time        // since when one did not go; zero: all went
}

// NewSealer makes a sealer. It refuses a log whose newest checkpoint another key signed.
func NewSealer(ctx context.Context, o Options) (*Sealer, error) {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sealer{o: o, published: map[Target]int64{}}
	var err error
	if s.epoch, err = o.Log.StoreEpoch(ctx); err != nil {
		return nil, err
	}
	head, err := o.Log.Head(ctx)
	if err != nil || head.Size == 0 || o.NewKey {
		return s, err
	}
	if _, err := Open(head.Note, o.Key.Verifiers()); err != nil {
		return nil, record.Because(record.Invalid, err, "the log's newest checkpoint was signed by another key than this server's; put the key back that was there")
	}
	return s, nil
}

// Epoch is that of the store when this was made.
func (s *Sealer) Epoch() int64 { return s.epoch }

// Run seals and publishes until ctx ends.
func (s *Sealer) Run(ctx context.Context) {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for {
		if err := s.Step(ctx); err != nil && ctx.Err() == nil {
			s.o.Logger.Error("the log was not sealed", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			// What was recorded until the end is sealed with the end.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			if err := s.Step(last); err != nil {
				s.o.Logger.Error("the log's end was not sealed; the next start seals it", "error", err)
			}
			cancel()
			return
		}
	}
}

// Step seals what is there, and publishes the newest checkpoint, whoever made it.
func (s *Sealer) Step(ctx context.Context) error {
	for {
		n, err := s.Seal(ctx)
		var refused *record.Refusal
		if errors.As(err, &refused) {
			break // another replica sealed; what it left is for the next time
		}
		if err != nil {
			return err
		}
		if n < most {
			break
		}
	}
	return s.publish(ctx)
}

// Seal makes one checkpoint of what is not sealed yet, and says how many events it
// added; with none there is no checkpoint.
func (s *Sealer) Seal(ctx context.Context) (int, error) {
	from, err := s.o.Log.Head(ctx)
	if err != nil {
		return 0, err
	}
	events, err := s.o.Log.Logged(ctx, from.Seq, 1<<62, most)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	to, tiles, err := s.checkpoint(ctx, from, events)
	if err != nil {
		return 0, err
	}
	change, err := record.Seal(from, to, tiles)
	if err != nil {
		return 0, err
	}
	return len(events), s.o.Apply(ctx, change)
}

// checkpoint computes the tree with the events in it.
func (s *Sealer) checkpoint(ctx context.Context, from record.Checkpoint, events []record.Event) (to record.Checkpoint, changed []record.Tile, err error) {
	var before Checkpoint
	if from.Size > 0 {
		if before, err = read(from); err != nil {
			return to, nil, err
		}
	}
	to = record.Checkpoint{Size: from.Size + int64(len(events)), Seq: events[len(events)-1].Seq, Epoch: s.epoch,
		At: s.o.Clock().UTC().Truncate(time.Microsecond), Salt: make([]byte, 32)}
	if to.At.Before(from.At) {
		to.At = from.At // another replica's clock is ahead
	}
	if _, err := io.ReadFull(s.o.Random, to.Salt); err != nil {
		return to, nil, err
	}
	tree := growing{old: hashes(ctx, s.o.Log, before), first: tlog.StoredHashCount(from.Size)}
	for i, e := range events {
		n := from.Size + int64(i)
		more, err := tlog.StoredHashesForRecordHash(n, tlog.RecordHash(leaf(to.Salt, n, e)), &tree)
		if err != nil {
			return to, nil, damaged(err)
		}
		tree.added = append(tree.added, more...)
	}
	root, err := tlog.TreeHash(to.Size, &tree)
	if err != nil {
		return to, nil, damaged(err)
	}
	for _, t := range tlog.NewTiles(height, from.Size, to.Size) {
		data, err := tlog.ReadTileData(t, &tree)
		if err != nil {
			return to, nil, damaged(err)
		}
		changed = append(changed, record.Tile{Level: t.L, N: t.N, Data: data})
	}
	signed, err := Checkpoint{Size: to.Size, Root: root, Previous: digestOf(from.Note), Epoch: to.Epoch, Seq: to.Seq, Time: to.At}.sign(s.o.Key)
	to.Note = signed.note
	return to, changed, err
}

func damaged(err error) error {
	return record.Because(record.Internal, err, "the log's hashes do not fit its newest checkpoint; restore the store")
}

// growing is a tree that is read from the store as far as it is sealed, and kept here
// from there on.
type growing struct {
	old   tlog.HashReader
	first int64 // of the hashes that were added
	added []tlog.Hash
}

// ReadHashes implements tlog.HashReader.
func (g *growing) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	var ask []int64
	var at []int
	for i, x := range indexes {
		switch {
		case x >= g.first+int64(len(g.added)):
			return nil, errors.New("a hash is asked for that is not made yet")
		case x >= g.first:
			out[i] = g.added[x-g.first]
		default:
			ask, at = append(ask, x), append(at, i)
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	old, err := g.old.ReadHashes(ask)
	for i := range old {
		out[at[i]] = old[i]
	}
	return out, err
}

// Unsealed is how long the oldest event without a leaf has been waiting for one.
func (s *Sealer) Unsealed(ctx context.Context) (time.Duration, error) {
	head, err := s.o.Log.Head(ctx)
	if err != nil {
		return 0, err
	}
	next, err := s.o.Log.Logged(ctx, head.Seq, 1<<62, 1)
	if err != nil || len(next) == 0 {
		return 0, err
	}
	return max(0, s.o.Clock().Sub(next[0].At)), nil
}
