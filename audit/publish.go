package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/placet-dev/placet/record"
)

// Target takes checkpoints outside of the store. What it took, nobody can take back
// who has only the store.
type Target interface {
	Publish(ctx context.Context, c Checkpoint) error
}

// published is a line of a file of checkpoints, and the body of a POST.
type published struct {
	Checkpoint string `json:"checkpoint"`
}

func (c Checkpoint) line() ([]byte, error) {
	b, err := json.Marshal(published{c.note})
	return append(b, '\n'), err
}

// File is an append-only file, one checkpoint a line.
type File struct{ Path string }

// Publish implements Target: it returns when the line is durable.
func (f File) Publish(_ context.Context, c Checkpoint) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	_, err = os.Stat(f.Path)
	isNew := errors.Is(err, fs.ErrNotExist)
	out, err := os.OpenFile(f.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return record.Because(record.Unavailable, err, "the checkpoint cannot be written")
	}
	if last, e := lastBytes(out, 1); e == nil && len(last) == 1 && last[0] != '\n' {
		line = append([]byte{'\n'}, line...) // a crash cut a line short
	}
	_, err = out.Write(line)
	if err = errors.Join(err, out.Sync(), out.Close()); err == nil && isNew {
		err = syncFolder(filepath.Dir(f.Path))
	}
	return err
}

// Newest returns the last checkpoint of the file; found is false where it has none. A
// line that was cut short, as a crash leaves it, is none.
func (f File) Newest(keys note.Verifiers) (c Checkpoint, found bool, err error) {
	in, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, record.Because(record.Unavailable, err, "the published checkpoints cannot be read")
	}
	defer in.Close()
	tail, err := lastBytes(in, 64<<10)
	if err != nil {
		return c, false, record.Because(record.Unavailable, err, "the published checkpoints cannot be read")
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < 0 {
		return c, false, nil
	}
	begin := bytes.LastIndexByte(tail[:end], '\n') + 1
	var line published
	if err := json.Unmarshal(tail[begin:end], &line); err != nil {
		return c, false, record.Errorf(record.Invalid, "the last line of %s is no checkpoint", f.Path)
	}
	c, err = Open(line.Checkpoint, keys)
	return c, err == nil, err
}

func lastBytes(f *os.File, n int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-n)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}

// URL takes checkpoints by POST, as JSON. It is somebody else's server: any answer of
// 2xx means that it keeps the checkpoint.
type URL struct {
	Address string
	Client  *http.Client
}

// Publish implements Target.
func (u URL) Publish(ctx context.Context, c Checkpoint) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.Address, bytes.NewReader(line))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := u.Client.Do(req)
	if err != nil {
		return record.Because(record.Unavailable, err, "the checkpoint could not be sent")
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(bufio.NewReader(res.Body), 64<<10))
	if res.StatusCode/100 != 2 {
		return record.Errorf(record.Unavailable, "the checkpoint was answered with status %d", res.StatusCode)
	}
	return nil
}

// publish sends the newest checkpoint where it was not sent yet.
func (s *Sealer) publish(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.o.Publish) == 0 {
		return nil
	}
	head, err := s.o.Log.Head(ctx)
	if err != nil || head.Size == 0 {
		return err
	}
	c, err := read(head)
	if err != nil {
		return err
	}
	var failed error
	for _, t := range s.o.Publish {
		if s.published[t] >= c.Size {
			continue
		}
		if err := t.Publish(ctx, c); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.published[t] = c.Size
	}
	switch {
	case failed == nil:
		s.failing = time.Time{}
	case s.failing.IsZero():
		s.failing = s.o.Clock()
	}
	return failed
}

// Unpublished is how long a target has not taken the newest checkpoint.
func (s *Sealer) Unpublished() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.IsZero() {
		return 0
	}
	return max(0, s.o.Clock().Sub(s.failing))
}

// Checkpoints finds the signed texts in what was kept: a file of [File], or one text
// alone. Lines that a crash cut short are none.
func Checkpoints(kept []byte) ([]string, error) {
	var out []string
	for line := range bytes.Lines(kept) {
		var one published
		if strict(bytes.TrimSpace(line), &one) == nil && one.Checkpoint != "" {
			out = append(out, one.Checkpoint)
		}
	}
	if len(out) == 0 && bytes.Contains(kept, []byte("\n\n")) {
		out = append(out, string(kept))
	}
	if len(out) == 0 {
		return nil, record.Errorf(record.Invalid, "there is no checkpoint in it")
	}
	return out, nil
}
