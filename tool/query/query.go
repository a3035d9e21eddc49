package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
	"github.com/placet-dev/placet/yamlfile"
)

// Options are what an invoker is made of.
type Options struct {
	Own []string // files and folders of Placet itself
	// Held are the files of a folder, by name, where they are not read from the disk;
	// false: they are. Nil: all are.
	Held func(folder string) (map[string][]byte, bool)
}

// Invoker runs the tools. It implements dispatch.Invoker.
type Invoker struct {
	own   []string
	held  func(string) (map[string][]byte, bool)
	pools pools

	mu    sync.Mutex
	known map[string]known // what was read last, by server and tool
}

type known struct {
	text  string
	query *Query
	err   error
}

var _ dispatch.Invoker = (*Invoker)(nil)

// New makes an invoker. It must be closed.
func New(o Options) *Invoker {
	return &Invoker{own: o.Own, held: o.Held, pools: pools{all: map[string]*pool{}}, known: map[string]known{}}
}

// Close ends every connection.
func (v *Invoker) Close() error {
	v.pools.close()
	return nil
}

// DialectOf is the SQL that a server's queries are written in.
func DialectOf(s *registry.Server) Dialect {
	if strings.HasPrefix(s.Database, "sqlite:") {
		return SQLite
	}
	return PostgreSQL
}

const extension = ".sql"

// fileName is what a query's file may be called, without the extension.
var fileName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// ListOffers reads every query of the folder. One that cannot be read is an error:
// whoever asks is to know of it.
func (v *Invoker) ListOffers(_ context.Context, s *registry.Server) ([]registry.Offer, error) {
	root, err := v.open(s)
	if err != nil {
		return nil, record.Errorf(record.Unavailable, "server %s: the folder of its queries cannot be read", s.Name)
	}
	defer root.close()
	entries, err := root.names()
	if err != nil {
		return nil, record.Errorf(record.Unavailable, "server %s: the folder of its queries cannot be read", s.Name)
	}
	var out []registry.Offer
	var ps yamlfile.Problems
	for _, e := range entries {
		name, ok := strings.CutSuffix(e, extension)
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		o, err := v.offer(root, s, name)
		some := yamlfile.Problems(nil)
		switch {
		case errors.As(err, &some):
			ps = append(ps, some...)
		case err != nil:
			return nil, err
		default:
			out = append(out, o)
		}
	}
	if len(ps) > 0 {
		return nil, record.Errorf(record.Invalid, "server %s: %w", s.Name, ps)
	}
	return out, nil
}

// Offer reads one query as it is now, whatever its age.
func (v *Invoker) Offer(_ context.Context, s *registry.Server, upstream string, _ time.Duration) (registry.Offer, error) {
	root, err := v.open(s)
	if err != nil {
		return registry.Offer{}, record.Errorf(record.Unavailable, "server %s: the folder of its queries cannot be read", s.Name)
	}
	defer root.close()
	o, err := v.offer(root, s, upstream)
	if ps := (yamlfile.Problems)(nil); errors.As(err, &ps) {
		return o, record.Errorf(record.Invalid, "server %s: %w", s.Name, ps)
	}
	return o, err
}

func (v *Invoker) offer(root folder, s *registry.Server, name string) (registry.Offer, error) {
	if !fileName.MatchString(name) {
		return registry.Offer{}, yamlfile.Problems{{File: path.Join(path.Base(s.Queries), name+extension), Message: "a query's name is at most 64 letters, digits, _ and -, and starts with a letter"}}
	}
	text, err := root.text(name + extension)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return registry.Offer{}, record.Errorf(record.NotFound, "server %s has no query %q", s.Name, name)
	case err != nil:
		return registry.Offer{}, record.Errorf(record.Unavailable, "server %s: the query %s cannot be read", s.Name, name)
	}
	q, err := v.parse(s, name, text)
	if err != nil {
		return registry.Offer{}, err
	}
	return q.offer(text)
}

// parse reads a query's text, unless it is the one that was read last.
func (v *Invoker) parse(s *registry.Server, name, text string) (*Query, error) {
	key := s.Name + "\n" + name
	v.mu.Lock()
	k, ok := v.known[key]
	v.mu.Unlock()
	if ok && k.text == text {
		return k.query, k.err
	}
	q, ps := Parse(name, path.Join(path.Base(s.Queries), name+extension), text, DialectOf(s))
	k = known{text: text, query: q, err: ps.Err()}
	v.mu.Lock()
	v.known[key] = k
	v.mu.Unlock()
	return k.query, k.err
}

// Invoke runs the ticket's call: the text that was reviewed, not what the file holds
// now.
func (v *Invoker) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errors.New("the ticket is not good for a call")}
	}
	if !w.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, w.Deadline)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return dispatch.Reached{Err: err}
	}
	if w.Tool.Pin == nil {
		return dispatch.Reached{Refused: true, Err: errors.New("the query is not pinned")}
	}
	q, err := v.parse(w.Server, w.Tool.Upstream, w.Tool.Pin.Definition)
	if err != nil {
		return dispatch.Reached{Refused: true, Err: err}
	}
	if q.Writes && w.Tool.Read {
		return dispatch.Reached{Refused: true, Err: errors.New("the registry says that the tool reads, and its query writes")}
	}
	values, err := q.values(w.Arguments, w.Owner)
	if err != nil {
		return reached(q, nil, unsent{err})
	}
	result, err := v.run(ctx, w, q, values)
	return reached(q, result, err)
}

func (v *Invoker) run(ctx context.Context, w dispatch.Work, q *Query, values map[string]value) (json.RawMessage, error) {
	limit := w.Tool.MaxRows
	if limit <= 0 {
		limit = defaultRows
	}
	if name, ok := strings.CutPrefix(w.Server.Database, "sqlite:"); ok {
		return file{path: name, own: v.own}.run(ctx, q, values, limit)
	}
	p, err := v.pools.get(w.Server.Name, w.Credential.Value)
	if err != nil {
		return nil, unsent{err}
	}
	return p.run(ctx, q, values, limit)
}

// unsent wraps the error of a call of which no statement left this process.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// untouched wraps the error of a call whose transaction was certainly not committed.
type untouched struct{ error }

func (u untouched) Unwrap() error { return u.error }

// reached says what is known of the effect. A refusal's text goes to the model;
// everything else is for operators. An error that is none of ours leaves a change
// unknown, and a read failed.
func reached(q *Query, result json.RawMessage, err error) dispatch.Reached {
	if err == nil {
		out, err := local.Result(result)
		return dispatch.Reached{Sent: true, Result: out, Err: err}
	}
	no := refused{}
	switch nothing := errors.As(err, new(unsent)); {
	case errors.As(err, &no):
		return dispatch.Reached{Sent: !nothing, Refused: true, IsError: true, Result: local.Failure(no.text)}
	case nothing:
		return dispatch.Reached{Refused: true, Err: err}
	}
	return dispatch.Reached{Sent: true, Refused: q.Writes && errors.As(err, new(untouched)), Err: err}
}

// Weakens reports whether a pinned query is one that reaches every tenant's rows,
// and refuses one that the registry marks as what it is not.
func Weakens(s *registry.Server, t *registry.Tool) (everyTenant bool, err error) {
	if t.Pin == nil {
		return false, nil
	}
	q, ps := Parse(t.Upstream, path.Join(path.Base(s.Queries), t.Upstream+extension), t.Pin.Definition, DialectOf(s))
	switch {
	case len(ps) > 0:
		return false, fmt.Errorf("what tools.lock holds of its query cannot be used: %w", ps)
	case q.Writes && t.Read:
		return false, fmt.Errorf("is marked read, and its query says writes: true (%s)", path.Join(path.Base(s.Queries), t.Upstream+extension))
	}
	return q.EveryTenant, nil
}
