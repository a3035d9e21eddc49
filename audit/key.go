package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/placet-dev/placet/record"
)

// Key signs checkpoints.
type Key struct {
	note.Signer
	public string
}

// Public is what verifies them, as one line of text.
func (k Key) Public() string { return k.public }

// Verifiers knows this key alone.
func (k Key) Verifiers() note.Verifiers {
	v, err := note.NewVerifier(k.public)
	if err != nil {
		return note.VerifierList() // it was made when the key was read; an empty list verifies nothing
	}
	return note.VerifierList(v)
}

// OpenKey reads a key file, or makes it with a key for a log of this name. Others must
// not be able to read it: who has it can sign another history.
func OpenKey(path, name string, random io.Reader) (Key, error) {
	if random == nil {
		random = rand.Reader
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = makeKey(path, name, random); errors.Is(err, fs.ErrExist) {
			text, err = os.ReadFile(path) // another replica was first
		}
	}
	if err != nil {
		return Key{}, record.Because(record.Unavailable, err, "the key of the log's checkpoints cannot be read or made")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		return Key{}, record.Errorf(record.Invalid, "%s holds the key of the log's checkpoints and can be read by others; chmod 600 it", path)
	}
	return parseKey(path, strings.TrimSpace(string(text)))
}

// KeyFrom is the key for a log of this name that follows from 32 secret bytes, for
// servers that share a secret in place of a file.
func KeyFrom(seed []byte, name string) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, record.Errorf(record.Internal, "a key of a log follows from %d bytes", ed25519.SeedSize)
	}
	public, ok := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	if !ok {
		return Key{}, record.Errorf(record.Internal, "a key without a public half")
	}
	text, err := note.NewEd25519VerifierKey(name, public) // NAME+HASH+KEY
	if err != nil {
		return Key{}, record.Because(record.Invalid, err, "a log cannot be called %q", name)
	}
	hash := strings.SplitN(text, "+", 3)[1]
	return parseKey("secret", "PRIVATE+KEY+"+name+"+"+hash+"+"+base64.StdEncoding.EncodeToString(append([]byte{algorithm}, seed...)))
}

// algorithm is Ed25519's number in a signed note's keys.
const algorithm = 1

func parseKey(path, text string) (Key, error) {
	signer, err := note.NewSigner(text)
	if err != nil {
		return Key{}, record.Errorf(record.Invalid, "%s holds no key of a log's checkpoints (PRIVATE+KEY+…); put back the one that was there", path)
	}
	public, err := publicOf(text)
	if err != nil {
		return Key{}, record.Because(record.Invalid, err, "%s holds no key of a log's checkpoints", path)
	}
	return Key{signer, public}, nil
}

// publicOf finds the public half in the private text, PRIVATE+KEY+name+hash+key.
func publicOf(private string) (string, error) {
	parts := strings.SplitN(private, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(parts) != 5 || len(seed) != 1+ed25519.SeedSize {
		return "", errors.New("it is of another form")
	}
	public, ok := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("it has no public half")
	}
	return note.NewEd25519VerifierKey(parts[2], public)
}

// makeKey writes a new one beside its place and links it there, so that a file under
// that name is always whole.
func makeKey(path, name string, random io.Reader) ([]byte, error) {
	private, _, err := note.GenerateKey(random, name)
	if err != nil {
		return nil, err
	}
	text := []byte(private + "\n")
	f, err := os.CreateTemp(filepath.Dir(path), ".log-key-*") // of mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return nil, err
	}
	return text, syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Verifiers reads public keys, one a line.
func Verifiers(text string) (note.Verifiers, error) {
	var list []note.Verifier
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return nil, record.Errorf(record.Invalid, "this is no public key of a log: it looks like NAME+HASH+KEY, as placet audit key prints it")
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return nil, record.Errorf(record.Invalid, "there is no public key in it")
	}
	return note.VerifierList(list...), nil
}
