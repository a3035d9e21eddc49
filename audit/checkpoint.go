package audit

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// Checkpoint is what a signed note says of the log.
type Checkpoint struct {
	Origin   string // the log's name, which is its key's
	Size     int64
	Root     tlog.Hash
	Previous canon.Digest // of the note before it; zero: it is the first
	Epoch    int64
	Seq      int64 // number of the last event
	Time     time.Time

	note string
}

// Note is the signed text.
func (c Checkpoint) Note() string { return c.note }

// Digest is what the next checkpoint calls its previous one.
func (c Checkpoint) Digest() canon.Digest { return digestOf(c.note) }

func digestOf(note string) canon.Digest {
	if note == "" {
		return canon.Digest{}
	}
	return canon.Of("placet/checkpoint/1", []byte(note))
}

// text is the signed part: name, size and root as other transparency logs write them,
// and what is our own in lines behind.
func (c Checkpoint) text() string {
	return c.Origin + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Root[:]) + "\n" +
		"epoch " + strconv.FormatInt(c.Epoch, 10) + "\n" +
		"seq " + strconv.FormatInt(c.Seq, 10) + "\n" +
		"time " + c.Time.UTC().Format(time.RFC3339Nano) + "\n" +
		"previous " + orNone(c.Previous) + "\n"
}

func orNone(d canon.Digest) string {
	if d.IsZero() {
		return "none"
	}
	return d.String()
}

// sign makes the note.
func (c Checkpoint) sign(key note.Signer) (Checkpoint, error) {
	c.Origin = key.Name()
	signed, err := note.Sign(&note.Note{Text: c.text()}, key)
	if err != nil {
		return c, record.Because(record.Internal, err, "a checkpoint cannot be signed")
	}
	c.note = string(signed)
	return c, nil
}

// Open reads a checkpoint that one of the keys signed.
func Open(signed string, keys note.Verifiers) (Checkpoint, error) {
	n, err := note.Open([]byte(signed), keys)
	if err != nil {
		return Checkpoint{}, record.Because(record.Invalid, err, "the checkpoint is not signed by this log's key")
	}
	c, err := parse(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	if n.Sigs[0].Name != c.Origin {
		return Checkpoint{}, record.Errorf(record.Invalid, "the checkpoint is of the log %q and signed for %q", c.Origin, n.Sigs[0].Name)
	}
	c.note = signed
	return c, nil
}

// read reads a checkpoint of our own store, whose signature was looked at when it was opened.
func read(c record.Checkpoint) (Checkpoint, error) {
	text, _, found := strings.Cut(c.Note, "\n\n")
	if !found {
		return Checkpoint{}, malformed()
	}
	out, err := parse(text + "\n")
	if err != nil {
		return out, err
	}
	if out.Size != c.Size || out.Seq != c.Seq || out.Epoch != c.Epoch {
		return out, record.Errorf(record.Internal, "the store's checkpoint at %d says something else than what was signed", c.Size)
	}
	out.note = c.Note
	return out, nil
}

// parse reads the one form that text writes.
func parse(text string) (c Checkpoint, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 7 {
		return c, malformed()
	}
	field := func(i int, name string) string {
		v, ok := strings.CutPrefix(lines[i], name+" ")
		if !ok {
			err = malformed()
		}
		return v
	}
	number := func(s string) int64 {
		n, e := strconv.ParseInt(s, 10, 64)
		if e != nil || n < 0 {
			err = malformed()
		}
		return n
	}
	c.Origin, c.Size = lines[0], number(lines[1])
	c.Epoch, c.Seq = number(field(3, "epoch")), number(field(4, "seq"))
	root, e := tlog.ParseHash(lines[2])
	at, e2 := time.Parse(time.RFC3339Nano, field(5, "time"))
	c.Root, c.Time = root, at
	if previous := field(6, "previous"); previous != "none" && c.Previous.UnmarshalText([]byte(previous)) != nil {
		err = malformed()
	}
	if err != nil || e != nil || e2 != nil || c.text() != text {
		return Checkpoint{}, malformed()
	}
	return c, nil
}

func malformed() error {
	return record.Errorf(record.Invalid, "this is no checkpoint: seven lines, a blank one and a signature")
}
