package file

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
	"unicode/utf8"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/record"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/tool/local"
)

const (
	maxText    = 1 << 20 // of one file, read or written
	maxEntries = 1000    // of one folder, listed
)

// Options are what an invoker is made of.
type Options struct {
	Own []string // files and folders of Placet itself
}

// Invoker runs the tools. It implements dispatch.Invoker.
type Invoker struct{ own []string }

var _ dispatch.Invoker = (*Invoker)(nil)

// New makes an invoker.
func New(o Options) *Invoker { return &Invoker{o.Own} }

// Close has nothing to do: nothing stays open between calls.
func (v *Invoker) Close() error { return nil }

// tool is one of the tools of every folder.
type tool struct {
	offer registry.Offer
	run   func(*os.Root, arguments) (any, error)
}

// arguments are those of all tools; the schema of each says which it takes.
type arguments struct {
	Path     string `json:"path"`
	To       string `json:"to"`
	Content  string `json:"content"`
	IfExists string `json:"if_exists"`
}

func offer(name, title, description, properties, required, annotations string) registry.Offer {
	return registry.Offer{Name: name, Title: title, Description: description,
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` + properties + `},"required":[` + required + `]}`),
		Annotations: json.RawMessage(annotations)}
}

const (
	pathProperty = `"path":{"type":"string","minLength":1,"maxLength":1024,"description":"Path below the folder, with / between its parts."}`
	reads        = `{"readOnlyHint":true,"openWorldHint":false}`
	writes       = `{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}`
	destroys     = `{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}`
)

// tools are those of every folder, in the order in which they are offered.
var tools = []tool{
	{offer("list_files", "List files", "Lists what a folder holds, at most 1000 entries. Without a path, the whole folder's.",
		`"path":{"type":"string","minLength":1,"maxLength":1024,"description":"A folder below this one."}`, ``, reads), list},
	{offer("read_file", "Read a file", "Returns the text of a file of at most 1 MiB.", pathProperty, `"path"`, reads), read},
	{offer("write_file", "Write a file", "Writes a text file, whole or not at all. Folders on the way are made.",
		pathProperty+`,"content":{"type":"string","maxLength":1048576,"description":"The file's text."},"if_exists":{"type":"string","enum":["fail","replace"],"description":"What happens to a file that is there already. Default: fail."}`,
		`"path","content"`, writes), write},
	{offer("move_file", "Move a file", "Gives a file another path. A file that is there already is not replaced.",
		pathProperty+`,"to":{"type":"string","minLength":1,"maxLength":1024,"description":"Its new path."}`, `"path","to"`, writes), move},
	{offer("delete_file", "Delete a file", "Deletes a file, or a folder that is empty.", pathProperty, `"path"`, destroys), remove},
}

// ListOffers returns the tools of every folder.
func (v *Invoker) ListOffers(context.Context, *registry.Server) ([]registry.Offer, error) {
	out := make([]registry.Offer, len(tools))
	for i, t := range tools {
		out[i] = t.offer
	}
	return out, nil
}

// Offer returns one of them.
func (v *Invoker) Offer(_ context.Context, s *registry.Server, upstream string, _ time.Duration) (registry.Offer, error) {
	for _, t := range tools {
		if t.offer.Name == upstream {
			return t.offer, nil
		}
	}
	return registry.Offer{}, record.Errorf(record.NotFound, "a folder has no tool %q", upstream)
}

// refused is an error that the caller may read, of something that was not begun.
type refused struct{ text string }

func (r refused) Error() string { return r.text }

func refuse(format string, args ...any) error { return refused{fmt.Sprintf(format, args...)} }

// Invoke runs the ticket's call.
func (v *Invoker) Invoke(ctx context.Context, t dispatch.Ticket) dispatch.Reached {
	w, ok := t.Redeem()
	if !ok {
		return dispatch.Reached{Err: errors.New("the ticket is not good for a call")}
	}
	if err := ctx.Err(); err != nil {
		return dispatch.Reached{Err: err}
	}
	if !w.Deadline.IsZero() && !time.Now().Before(w.Deadline) {
		return dispatch.Reached{Err: errors.New("the deadline passed before the call began")}
	}
	for _, t := range tools {
		if t.offer.Name == w.Tool.Upstream {
			return v.invoke(t, w)
		}
	}
	return dispatch.Reached{Refused: true, Err: fmt.Errorf("a folder has no tool %q", w.Tool.Upstream)}
}

func (v *Invoker) invoke(t tool, w dispatch.Work) dispatch.Reached {
	var args arguments
	if err := json.Unmarshal(w.Arguments, &args); err != nil {
		return dispatch.Reached{Refused: true, Err: err}
	}
	root, err := w.Server.Files.Open(w.Owner, v.own)
	if err != nil {
		return dispatch.Reached{Refused: true, Err: err}
	}
	defer root.Close()
	value, err := t.run(root, args)
	if no := (refused{}); errors.As(err, &no) {
		// Nothing happened, and the model reads why.
		return dispatch.Reached{Sent: true, Refused: true, IsError: true, Result: local.Failure(no.text)}
	}
	if err != nil {
		return dispatch.Reached{Sent: true, Err: err}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return dispatch.Reached{Sent: true, Err: err}
	}
	result, err := local.Result(text)
	return dispatch.Reached{Sent: true, Result: result, Err: err}
}

// name is a path below the root, in normal form.
func name(text string) (string, error) {
	rel, err := guard.Local(text)
	if err != nil {
		return "", refuse("%s", record.PublicMessage(err))
	}
	return rel, nil
}

// failed says why something that changed nothing could not be done, without a path.
func failed(err error, what string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return refuse("%s is not there", what)
	case errors.Is(err, fs.ErrExist):
		return refuse("%s is there already", what)
	case errors.Is(err, fs.ErrPermission):
		return refuse("%s may not be used", what)
	}
	return refuse("%s cannot be used", what)
}

// Entry is what a folder holds.
type Entry struct {
	Name     string    `json:"name"`
	Folder   bool      `json:"folder,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`
	Modified time.Time `json:"modified"`
}

func list(root *os.Root, args arguments) (any, error) {
	at := "."
	if args.Path != "" {
		var err error
		if at, err = name(args.Path); err != nil {
			return nil, err
		}
	}
	dir, err := root.Open(at)
	if err != nil {
		return nil, failed(err, "the folder")
	}
	defer dir.Close()
	found, err := dir.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, failed(err, "the folder")
	}
	out := struct {
		Entries []Entry `json:"entries"`
		More    bool    `json:"more,omitempty"`
	}{Entries: []Entry{}, More: len(found) > maxEntries}
	for _, e := range found[:min(len(found), maxEntries)] {
		info, err := e.Info()
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			continue // gone meanwhile, or a link or device, which this tool does not show
		}
		entry := Entry{Name: e.Name(), Folder: e.IsDir(), Modified: info.ModTime().UTC()}
		if !e.IsDir() {
			entry.Bytes = info.Size()
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}

func read(root *os.Root, args arguments) (any, error) {
	at, err := name(args.Path)
	if err != nil {
		return nil, err
	}
	// A pipe or device must not be opened: that alone may wait for ever.
	info, err := root.Stat(at)
	if err != nil {
		return nil, failed(err, "the file")
	}
	if !info.Mode().IsRegular() {
		return nil, refuse("this is no file")
	}
	f, err := root.Open(at)
	if err != nil {
		return nil, failed(err, "the file")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return nil, failed(err, "the file")
	case len(text) > maxText:
		return nil, refuse("the file is larger than %d bytes", maxText)
	case !utf8.Valid(text):
		return nil, refuse("the file is not text")
	}
	return string(text), nil
}

func write(root *os.Root, args arguments) (any, error) {
	at, err := name(args.Path)
	if err != nil {
		return nil, err
	}
	if at == "." || len(args.Content) > maxText {
		return nil, refuse("wants the path of a file, and a text of at most %d bytes", maxText)
	}
	there, err := root.Lstat(at)
	switch {
	case err == nil && !there.Mode().IsRegular():
		return nil, refuse("what is there is no file")
	case err == nil && args.IfExists != "replace":
		return nil, refuse("the file is there already; say if_exists: replace to replace it")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, failed(err, "the file")
	}
	if err := root.MkdirAll(path.Dir(at), 0o700); err != nil {
		return nil, failed(err, "its folder")
	}
	temporary := path.Join(path.Dir(at), ".placet-"+rand.Text())
	if err := fill(root, temporary, args.Content); err != nil {
		_ = root.Remove(temporary) // what is left of it is no file that anybody asked for
		return nil, failed(err, "the file")
	}
	if args.IfExists == "replace" {
		err = root.Rename(temporary, at)
	} else {
		// A link fails where something is: nothing that came meanwhile is replaced.
		if err = root.Link(temporary, at); errors.Is(err, fs.ErrExist) {
			err = refuse("the file is there already; say if_exists: replace to replace it")
		}
		_ = root.Remove(temporary)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"written": at, "bytes": len(args.Content)}, synced(root, path.Dir(at))
}

// fill writes a new file and makes it durable.
func fill(root *os.Root, at, text string) error {
	f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// synced makes a folder's names durable.
func synced(root *os.Root, at string) error {
	dir, err := root.Open(at)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func move(root *os.Root, args arguments) (any, error) {
	from, err := name(args.Path)
	if err != nil {
		return nil, err
	}
	to, err := name(args.To)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat(from)
	if err != nil {
		return nil, failed(err, "the file")
	}
	if !info.Mode().IsRegular() {
		return nil, refuse("only a file can be moved")
	}
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return nil, failed(err, "the new folder")
	}
	if err := root.Link(from, to); err != nil {
		return nil, failed(err, "the new path")
	}
	if err := root.Remove(from); err != nil {
		return nil, err
	}
	return map[string]any{"moved": from, "to": to}, errors.Join(synced(root, path.Dir(to)), synced(root, path.Dir(from)))
}

func remove(root *os.Root, args arguments) (any, error) {
	at, err := name(args.Path)
	if err != nil {
		return nil, err
	}
	if at == "." {
		return nil, refuse("the folder itself cannot be deleted")
	}
	if err := root.Remove(at); err != nil {
		return nil, failed(err, "the file, or a folder that is empty,")
	}
	return map[string]any{"deleted": at}, synced(root, path.Dir(at))
}
