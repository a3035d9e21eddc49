package placet

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/edge/console"
	"github.com/placet-dev/placet/record"
)

// secret is what the servers of one store share (config.Secret). The keys that each
// would make for itself follow from it, so that one serves what another began. Empty:
// there is none, and keys are files.
type secret []byte

// leastSecret is the shortest that is taken; it is to be made by a machine.
const leastSecret = 32

func (o Options) openSecret() (secret, error) {
	if o.Config.Secret.IsZero() {
		return nil, nil
	}
	text, err := o.Config.Secret.Read(o.LookupEnv, o.ReadFile)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "secret: %w", err)
	}
	if len(text) < leastSecret {
		return nil, record.Errorf(record.Invalid, "secret: it has %d characters and needs %d or more; openssl rand -base64 32 makes one", len(text), leastSecret)
	}
	return secret(text), nil
}

// key is one of 32 bytes, for one purpose; nil without a secret.
func (s secret) key(purpose string) ([]byte, error) {
	if len(s) == 0 {
		return nil, nil
	}
	key, err := hkdf.Key(sha256.New, s, nil, "placet/"+purpose+"/1", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of %s: %w", purpose, err)
	}
	return key, nil
}

// instead is the key for a purpose where no file holds one. A file that is there counts:
// it was made before there was a secret, and what it sealed is to stay valid.
func (s secret) instead(path, purpose string) ([]byte, error) {
	if _, err := os.Stat(path); len(s) == 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s.key(purpose)
}

// agree refuses to serve with other keys than the servers that are there already: what
// one of them sealed the other could not read.
func (p *Placet) agree(ctx context.Context) error {
	shared, ok := p.store.(interface {
		Agree(context.Context, string, canon.Digest) error
	})
	if !ok {
		return nil
	}
	keys := []struct {
		name   string
		digest canon.Digest
	}{{"secret", canon.Digest{}}}
	if key, err := p.secret.key("fingerprint"); err != nil {
		return err
	} else if key != nil {
		keys[0].digest = canon.Of("placet/secret/1", key)
	}
	if p.passkeys != nil {
		keys = append(keys, struct {
			name   string
			digest canon.Digest
		}{"key of passkeys", canon.Of("placet/passkey-key/1", p.passkeys.Public())})
	}
	if p.sources != nil {
		keys = append(keys, struct {
			name   string
			digest canon.Digest
		}{"key of delegations", p.sources.Fingerprint()})
	}
	for _, k := range keys {
		if err := shared.Agree(ctx, k.name, k.digest); err != nil {
			return fmt.Errorf("%w: all of them need the same secret, and the same files in keys where there are some", err)
		}
	}
	return nil
}

// kept is where sign-ins at the console are kept; nil: in this process.
func (p *Placet) kept() console.Kept {
	k, ok := p.store.(console.Kept)
	if !ok || len(p.secret) == 0 {
		return nil
	}
	return k
}
