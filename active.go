package placet

import (
	"context"
	"strings"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/sqlite"
	"github.com/placet-dev/placet/version"
)

const (
	// lookEvery is how often a process of several looks whether another one activated a
	// version. It reserves nothing under an old one however long it takes: the store
	// refuses that (rule C3).
	lookEvery = time.Second
	// tryEvery is how long it waits after a version that it could not load.
	tryEvery = 15 * time.Second
)

// attempt is the version that could not be loaded last.
type attempt struct {
	generation int64
	at         time.Time
	why        error
}

// shared reports whether other processes may activate versions in the store.
func (p *Placet) shared() bool {
	_, alone := p.store.(*sqlite.Store)
	return !alone
}

// latest is how the boundary catches up; nil where nobody else activates.
func (p *Placet) latest() func(context.Context) error {
	if !p.shared() {
		return nil
	}
	return p.catchUp
}

// begin makes this process decide by a version. On a store of its own the files are
// activated where they have changed since they were last: whoever went back to an
// earlier version, or sent one, is not undone by a mere start. On a shared store files
// activate nothing while there is an active version (rule H2).
func (p *Placet) begin(ctx context.Context) error {
	start := record.Who{System: "start"}
	generation, digest, err := p.store.Generation(ctx)
	if err != nil {
		return err
	}
	if generation == 0 {
		_, err = p.Reload(ctx, start, "")
		if record.KindOf(err) != record.Conflict || !p.shared() {
			return err
		}
		return p.catchUp(ctx) // another process was first
	}
	_, _, err = p.stored(ctx, digest)
	unstored := err != nil && record.KindOf(err) == record.NotFound // by a program that stored none
	switch {
	case unstored:
		_, err = p.Reload(ctx, start, "")
		return err
	case !p.shared():
		return p.beginAlone(ctx, digest)
	}
	if err := p.catchUp(ctx); err != nil {
		p.o.Log.Error("this server is not ready: the active version is not loaded here", "error", err)
	}
	p.hint(ctx)
	return nil
}

func (p *Placet) beginAlone(ctx context.Context, digest string) error {
	order := Order{}
	last, err := p.lastFiles(ctx)
	if err != nil {
		return err
	}
	if last.Digest != digest && !last.Sum.IsZero() {
		now, err := p.load(ctx, p.disk())
		if err != nil {
			return err
		}
		if last.Sum == record.ContentSum(now.Files) {
			order.Digest = digest
		}
	}
	r, err := p.Enact(ctx, record.Who{System: "start"}, order)
	if err == nil && order.Digest != "" {
		p.o.Log.Info("the files are what was activated before the active version, which stays; placet reload activates them", "generation", r.Generation)
	}
	return err
}

// lastFiles is the newest activation of this server's own files.
func (p *Placet) lastFiles(ctx context.Context) (record.Activation, error) {
	const page = 100
	for before := int64(0); ; {
		list, err := p.store.Activations(ctx, before, page)
		if err != nil {
			return record.Activation{}, err
		}
		for _, a := range list {
			before = a.To
			if a.Files == record.FilesOwn || a.Files == "" {
				return a, nil
			}
		}
		if len(list) < page {
			return record.Activation{}, nil
		}
	}
}

// hint says where the files of this machine are not what decides.
func (p *Placet) hint(ctx context.Context) {
	now := p.boundary.Current()
	if now == nil {
		return
	}
	here, err := p.load(ctx, p.disk())
	switch {
	case err != nil:
		p.o.Log.Info("the files here are not read: the active version is in the store", "files", record.PublicMessage(err))
	case here.Digest != now.Digest:
		p.o.Log.Info("the files here are not those of the active version; placet reload activates them",
			"generation", p.boundary.Generation(), "differ", strings.Join(record.Differences(now.Parts, here.Parts), ", "))
	}
}

// catchUp makes the version that the store says is active the one that this process
// decides by. Where it cannot, the process reserves nothing and is not ready.
func (p *Placet) catchUp(ctx context.Context) error {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	generation, digest, err := p.store.Generation(ctx)
	switch {
	case err != nil:
		return err
	case generation == p.boundary.Generation():
		p.boundary.Halt(nil)
		return nil
	case generation == p.tried.generation && p.o.Clock().Sub(p.tried.at) < tryEvery:
		return p.tried.why
	}
	err = p.adopt(ctx, generation, digest)
	if err != nil && record.KindOf(err) == record.Conflict {
		return err // yet another one: the next look finds it
	}
	p.tried = attempt{}
	if err != nil {
		p.tried = attempt{generation, p.o.Clock(), err}
	}
	p.boundary.Halt(err)
	return err
}

func (p *Placet) adopt(ctx context.Context, generation int64, digest string) error {
	files, v, err := p.stored(ctx, digest)
	if err != nil {
		return record.Errorf(record.Unavailable, "version %d is active and cannot be loaded: %w", generation, err)
	}
	a, err := p.load(ctx, version.Stored(p.o.Config.Folder(), files))
	if err != nil {
		return record.Errorf(record.Unavailable, "version %d is active and cannot be loaded: %w", generation, err)
	}
	if a.Digest != digest {
		return differs(generation, record.Differences(v.Parts, a.Parts))
	}
	if _, err = p.boundary.Adopt(ctx, a); err == nil {
		p.o.Log.Info("another process activated a version; it decides here now", "generation", generation)
		p.moved(true)
	}
	return err
}

// differs is why a version is not loaded whose files mean something else here.
func differs(generation int64, parts []string) error {
	const most = 10
	if len(parts) == 0 {
		return record.Errorf(record.Unavailable, "version %d is active, and its stored files are not those that were activated", generation)
	}
	if len(parts) > most {
		parts = append(parts[:most:most], "and more")
	}
	return record.Errorf(record.Unavailable, "version %d is active, and this server makes something else of its files: %s; give it the configuration and programs of the others, or activate the version through it",
		generation, strings.Join(parts, ", "))
}

// followVersions looks whether other processes activate something.
func (p *Placet) followVersions(ctx context.Context) {
	if !p.shared() {
		return
	}
	p.work.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			was := p.boundary.Ready()
			if err := p.catchUp(ctx); err != nil && was == nil && ctx.Err() == nil {
				p.o.Log.Error("the active version is not loaded here", "error", err)
			}
		}
	})
}

func (p *Placet) quarantined() int {
	if now := p.boundary.Current(); now != nil {
		return len(now.Registry.Quarantined())
	}
	return 0
}

func (p *Placet) overrides() []registry.Override {
	if now := p.boundary.Current(); now != nil {
		return now.Overrides
	}
	return nil
}

// activeFiles are the files of a version, by path.
type activeFiles struct {
	of    *dispatch.Active
	files version.Files
}

// held gives servers their files from the active version, where several processes share
// one: what one of them has on its disk decides nothing.
func (p *Placet) held() held {
	if !p.shared() {
		return held{}
	}
	reader := func() *version.Reader {
		now := p.boundary.Current()
		if now == nil {
			return nil
		}
		have := p.files.Load()
		if have == nil || have.of != now {
			files, err := version.Decode(now.Files)
			if err != nil {
				return nil
			}
			have = &activeFiles{now, files}
			p.files.Store(have)
		}
		return version.Stored(p.o.Config.Folder(), have.files)
	}
	return held{
		file: func(path string) ([]byte, bool) {
			r := reader()
			if r == nil {
				return nil, false
			}
			text, err := r.ReadFile(path)
			return text, err == nil
		},
		folder: func(path string) (map[string][]byte, bool) {
			r := reader()
			if r == nil {
				return nil, false
			}
			files, err := r.ReadTree(path, nil)
			return files, err == nil
		},
	}
}
