package placet

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/placet-dev/placet/audit"
	"github.com/placet-dev/placet/record"
)

// openSealer makes what seals the log. Its key lies with the others of this server.
func (p *Placet) openSealer(ctx context.Context) error {
	key, err := p.o.logKey(p.secret)
	if err != nil {
		return err
	}
	if err := p.o.whole(ctx, p.store, key); err != nil {
		return record.Errorf(record.KindOf(err), "%w; %s", err, older)
	}
	p.sealer, err = audit.NewSealer(ctx, audit.Options{Log: p.store, Apply: p.store.Apply, Key: key,
		Every: p.o.Config.Checkpoint.Every, Publish: p.o.targets(), Clock: p.o.Clock, Random: p.o.Random, Logger: p.o.Log})
	p.logKey = key.Public()
	return err
}

// logKey is the key of the log's checkpoints: of a file, or, where there is none, of the
// secret that servers share. A new log is named after this server.
func (o Options) logKey(s secret) (audit.Key, error) {
	name := "placet"
	if u, err := url.Parse(o.Config.PublicURL); err == nil && u.Hostname() != "" {
		name = u.Hostname()
	}
	path := o.Config.StorePath() + ".log-key"
	seed, err := s.instead(path, "log")
	if err != nil {
		return audit.Key{}, err
	}
	if seed != nil {
		return audit.KeyFrom(seed, "placet") // whatever the address of the servers is
	}
	return audit.OpenKey(path, name, o.Random)
}

// targets is where checkpoints go besides the store.
func (o Options) targets() (out []audit.Target) {
	files, urls := o.Config.Published()
	for _, path := range files {
		out = append(out, audit.File{Path: path})
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: o.HTTP.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, address := range urls {
		out = append(out, audit.URL{Address: address, Client: client})
	}
	return out
}

// sealedInTime reports whether the log is sealed in time.
func (p *Placet) sealedInTime(ctx context.Context) error {
	if now, err := p.store.StoreEpoch(ctx); err != nil || now != p.sealer.Epoch() {
		return errors.Join(err, record.Errorf(record.Unavailable, "a new epoch of the store was opened; this process must be restarted"))
	}
	lag, err := p.sealer.Unsealed(ctx)
	if err == nil && lag > p.o.Config.Checkpoint.Late {
		err = record.Errorf(record.Unavailable, "an event has waited for %s to be sealed", lag.Round(time.Second))
	}
	return err
}
