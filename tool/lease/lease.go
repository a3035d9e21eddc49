package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

// maxSchema bounds the file of a schema; a pin takes no more.
const maxSchema = 256 << 10

// Invoker hands tickets on to their callers. It implements [dispatch.Invoker].
type Invoker struct {
	now  func() time.Time
	held func(path string) ([]byte, bool)
}

var _ dispatch.Invoker = (*Invoker)(nil)

// New returns an invoker. held is the text of a file that is not read from the disk;
// false: it is. Nil: all are.
func New(held func(path string) ([]byte, bool)) *Invoker { return &Invoker{time.Now, held} }

// Close has nothing to end.
func (v *Invoker) Close() error { return nil }

// Invoke makes a lease of the ticket's call.
func (v *Invoker) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errors.New("the ticket is not good for a call")}
	}
	return v.invoke(ctx, w)
}

func (v *Invoker) invoke(ctx context.Context, w dispatch.Work) dispatch.Reached {
	switch {
	case ctx.Err() != nil:
		return dispatch.Reached{Err: ctx.Err()}
	case w.Secret == "":
		return dispatch.Reached{Refused: true, Err: errors.New("the attempt has no holder who could report")}
	case !w.Deadline.IsZero() && !v.now().Before(w.Deadline):
		return dispatch.Reached{Err: errors.New("the deadline passed before the lease was handed out")}
	}
	l := &dispatch.Lease{Attempt: w.Attempt, Tool: w.Tool.Upstream, Arguments: w.Arguments, Key: w.Key, Ends: w.Lease, Secret: w.Secret}
	if w.Token != nil {
		var err error
		if l.Token, err = w.Token(); err == nil && l.Token == "" {
			err = errors.New("the token is empty")
		}
		if err != nil {
			return dispatch.Reached{Refused: true, Err: fmt.Errorf("sign the dispatch token: %w", err)}
		}
	}
	return dispatch.Reached{Sent: true, Lease: l}
}

// ListOffers returns a server's tools as the files of their schemas describe them, by
// name. It asks nobody.
func (v *Invoker) ListOffers(_ context.Context, s *registry.Server) ([]registry.Offer, error) {
	var out []registry.Offer
	for _, name := range slices.Sorted(maps.Keys(s.Schemas)) {
		o, err := v.read(s, name)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// Offer returns one of them, as its file has it now.
func (v *Invoker) Offer(_ context.Context, s *registry.Server, upstream string, _ time.Duration) (registry.Offer, error) {
	if s.Schemas[upstream] == "" {
		return registry.Offer{}, record.Errorf(record.NotFound, "server %s has no schema of %q", s.Name, upstream)
	}
	return v.read(s, upstream)
}

// read makes a tool's offer of its schema, whose title and description are the tool's.
func (v *Invoker) read(s *registry.Server, name string) (registry.Offer, error) {
	unreadable := func(err error) error {
		return record.Because(record.Unavailable, err, "the schema of %s, a tool of server %s, cannot be read; look at its file", name, s.Name)
	}
	text, err := v.text(s.Schemas[name])
	if err != nil {
		return registry.Offer{}, unreadable(err)
	}
	if len(text) > maxSchema {
		return registry.Offer{}, unreadable(fmt.Errorf("larger than %d bytes", maxSchema))
	}
	var words struct {
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	if err := json.Unmarshal(text, &words); err != nil {
		return registry.Offer{}, unreadable(errors.New("not a JSON object whose title and description are text"))
	}
	return registry.Offer{Name: name, Title: words.Title, Description: words.Description, InputSchema: text}, nil
}

func (v *Invoker) text(path string) ([]byte, error) {
	if v.held != nil {
		if text, ok := v.held(path); ok {
			return text, nil
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxSchema+1))
}

// Result writes what a framework's tool returned as a tool result: an object as
// structured content beside its text, a text as text. An error is its text.
func Result(value json.RawMessage, failed string) (json.RawMessage, error) {
	if failed != "" {
		return local.Failure(failed), nil
	}
	result, err := local.Result(value)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "the result is not JSON")
	}
	return result, nil
}
