package placet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/placet-dev/placet/dispatch"
	"github.com/placet-dev/placet/registry"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/sqlite"
	toolmcp "github.com/placet-dev/placet/tool/mcp"
)

// Health is how one thing was found.
type Health string

const (
	Well    Health = "ok"
	Worries Health = "warn" // it works, and somebody should know
	Fails   Health = "fail" // calls are denied, or something that must hold does not
)

// Finding is one line of an examination.
type Finding struct {
	Check  string `json:"check"`
	Status Health `json:"status"`
	Says   string `json:"says"`
	Do     string `json:"do,omitempty"` // what to do about it
}

const (
	askedFor    = 10 * time.Second // how long a server, an issuer or the store may take to answer
	clockWorry  = 2 * time.Second
	clockFail   = time.Minute // tokens and dispatch tokens count for about so long
	diskWorry   = 1 << 30
	diskFail    = 64 << 20
	certWorry   = 14 * 24 * time.Hour
	unsealedLog = 10 * time.Second
)

// Examine looks at what a server of this configuration rests on, whether it runs or not:
// files, secrets, store, clocks, issuers, tool servers, and the server itself. It changes
// nothing and calls no tool.
func Examine(ctx context.Context, o Options) []Finding {
	e := &examination{}
	given, err := o.withDefaults()
	if err != nil {
		e.fail("configuration", told(err), "mend it; placet check says where")
		return e.found
	}
	e.o = given
	checked, err := Check(ctx, e.o)
	e.configuration(checked, err)
	e.secrets()
	e.files()
	e.disk()
	e.store(ctx, checked)
	if checked != nil {
		e.issuers(ctx, checked)
		e.toolServers(ctx, checked)
	}
	e.serving(ctx)
	return e.found
}

type examination struct {
	o     Options
	found []Finding
}

func (e *examination) add(check string, h Health, says, do string) {
	e.found = append(e.found, Finding{check, h, says, do})
}

func (e *examination) ok(check, format string, args ...any) {
	e.add(check, Well, fmt.Sprintf(format, args...), "")
}
func (e *examination) warn(check, says, do string) { e.add(check, Worries, says, do) }
func (e *examination) fail(check, says, do string) { e.add(check, Fails, says, do) }

// told is an error for operators on one line.
func told(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (e *examination) configuration(checked *Checked, err error) {
	const check = "configuration"
	if err != nil {
		e.fail(check, told(err), "mend it; placet check says where")
		return
	}
	if n := len(checked.Warnings()); n > 0 {
		e.warn(check, fmt.Sprintf("it is valid, with %s", counted(n, "warning")), "placet check lists them")
	} else {
		e.ok(check, "it is valid: %s, %s", counted(checked.Registry().Len(), "tool"), counted(len(e.o.Config.Policy.Layers), "policy layer"))
	}
	if n := len(checked.Registry().Quarantined()); n > 0 {
		e.warn("registry", counted(n, "tool")+" in quarantine: to callers they are not there", "placet tools says why; review with placet tools diff, then placet tools lock SERVER")
	}
	same := 0
	for _, w := range checked.Overrides() {
		if w.Setting == "same_user" {
			same++
			e.warn("overrides", w.Subject+": "+w.Detail, "give the command a user or a sandbox of its own ("+w.Place+")")
		}
	}
	if n := len(checked.Overrides()) - same; n > 0 {
		e.add("overrides", Well, counted(n, "setting")+" that weaken a default", "placet overrides lists them")
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// secrets reads every secret that the configuration refers to, and prints none.
func (e *examination) secrets() {
	readable := 0
	for _, s := range e.o.Config.Secrets() {
		if _, err := s.Ref.Read(e.o.LookupEnv, e.o.ReadFile); err != nil {
			e.fail("secrets", s.Key+": "+told(err), "set the variable, or write the file, for the user that the server runs as")
			continue
		}
		readable++
		if path := s.Ref.File(); path != "" {
			e.mode("secrets", path)
		}
	}
	if readable > 0 {
		e.ok("secrets", "%s can be read", counted(readable, "secret"))
	}
}

// files looks at the keys that the server keeps, and at its certificate.
func (e *examination) files() {
	c := e.o.Config
	for _, end := range []string{"", ".log-key", ".dispatch-keys", ".passkey-key", ".delegation-key"} {
		if end == "" && !strings.HasPrefix(c.Store, "sqlite:") {
			continue
		}
		e.mode("files", c.StorePath()+end)
	}
	if c.TLS == nil {
		return
	}
	e.mode("certificate", c.TLS.Key)
	pair, err := tls.LoadX509KeyPair(c.TLS.Certificate, c.TLS.Key)
	if err != nil {
		e.fail("certificate", told(err), "name a certificate and its key under tls")
		return
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		e.fail("certificate", told(err), "name a certificate under tls")
		return
	}
	switch left := leaf.NotAfter.Sub(e.o.Clock()); {
	case left <= 0:
		e.fail("certificate", "it ended "+leaf.NotAfter.UTC().Format(time.RFC3339), "renew it and restart the server")
	case left < certWorry:
		e.warn("certificate", "it ends "+leaf.NotAfter.UTC().Format(time.RFC3339), "renew it and restart the server")
	default:
		e.ok("certificate", "it is valid until %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}

// mode fails for a file that others than its owner and its group's readers reach.
func (e *examination) mode(check, path string) {
	info, err := os.Stat(path)
	if err != nil {
		return // whoever needs it says that it is not there
	}
	if info.Mode().Perm()&0o027 != 0 {
		e.fail(check, fmt.Sprintf("%s has the mode %04o: others can read or change it", path, info.Mode().Perm()), "chmod 600 "+path)
	}
}

// disk looks at the space where this server writes.
func (e *examination) disk() {
	folders := []string{filepath.Dir(e.o.Config.StorePath())}
	published, _ := e.o.Config.Published()
	for _, path := range published {
		folders = append(folders, filepath.Dir(path))
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		var s syscall.Statfs_t
		if err := syscall.Statfs(folder, &s); err != nil {
			if !errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(e.o.Config.Store, "sqlite:") {
				e.fail("disk", fmt.Sprintf("%s: %v", folder, err), "make the folder, for the user that the server runs as alone")
			}
			continue
		}
		free := uint64(s.Bavail) * uint64(s.Bsize)
		says := fmt.Sprintf("%d MB are free in %s", free>>20, folder)
		switch {
		case free < diskFail:
			e.fail("disk", says, "make room: with a full disk every call is denied")
		case free < diskWorry:
			e.warn("disk", says, "make room; nothing removes old records")
		default:
			e.ok("disk", "%s", says)
		}
	}
}

func (e *examination) store(ctx context.Context, checked *Checked) {
	const check = "store"
	ctx, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	found, shared, err := e.condition(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.warn(check, "there is none yet", "the server makes it when it first starts")
		return
	case err != nil:
		e.fail(check, told(err), "see that the database or the file is there, and that this user may use it")
		return
	case found.Schema == 0:
		e.warn(check, "it has no schema yet", "placet migrate makes it; a server does, where its role may")
	case found.Schema < found.Known:
		e.warn(check, fmt.Sprintf("its schema is %d, and this program's is %d", found.Schema, found.Known), "back it up; placet migrate, or a start where the role may, brings it to this one")
	case found.Schema > found.Known:
		e.warn(check, fmt.Sprintf("its schema is %d, and this program knows up to %d", found.Schema, found.Known), "use the newer program")
	default:
		e.ok(check, "it answers, with schema %d and %d events", found.Schema, found.Events)
	}
	for _, weak := range found.Weak {
		e.fail(check, weak, "set the database up as docs/operations.md says")
	}
	e.clock(found.Clock)
	if found.Schema == found.Known {
		e.log(found)
		e.version(found, shared, checked)
	}
}

// condition looks at the store that the configuration names; fs.ErrNotExist: at none.
func (e *examination) condition(ctx context.Context) (found dispatch.Condition, shared bool, err error) {
	dsn, shared, err := e.o.Config.Database(e.o.LookupEnv, e.o.ReadFile)
	if err != nil {
		return found, shared, err
	}
	if shared {
		found, err = postgres.Examine(ctx, dsn)
		return found, shared, err
	}
	if _, err := os.Stat(e.o.Config.StorePath()); err != nil {
		return found, shared, err
	}
	found, err = sqlite.Examine(ctx, e.o.Config.StorePath())
	return found, shared, err
}

func (e *examination) clock(database time.Time) {
	if database.IsZero() {
		return
	}
	off := e.o.Clock().Sub(database).Abs()
	says := fmt.Sprintf("this machine's and the database's differ by %s", off.Round(time.Millisecond))
	switch {
	case off > clockFail:
		e.fail("clock", says, "set both by NTP: tokens and the times of dispatch are judged by them")
	case off > clockWorry:
		e.warn("clock", says, "set both by NTP")
	default:
		e.ok("clock", "%s", says)
	}
}

// log looks at the sealing of the event log, and at what is not settled.
func (e *examination) log(found dispatch.Condition) {
	if lag := e.o.Clock().Sub(found.Unsealed); found.Unsealed.IsZero() || lag <= max(unsealedLog, 3*e.o.Config.Checkpoint.Every) {
		e.ok("log", "every event is under a checkpoint, or will be in a moment")
	} else {
		says := fmt.Sprintf("an event has waited for %s for its checkpoint", lag.Round(time.Second))
		if late := e.o.Config.Checkpoint.Late; late > 0 && lag > late {
			e.fail("log", says, "see whether a server runs, and what its log says of checkpoints")
		} else {
			e.warn("log", says, "see whether a server runs, and what its log says of checkpoints")
		}
	}
	if len(e.o.Config.Checkpoint.Publish) == 0 {
		e.warn("log", "checkpoints are published nowhere: an older copy of the store would not be noticed", "name a place in checkpoint.publish")
	}
	if _, err := os.Stat(e.o.Config.StorePath() + ".log-key"); err != nil && found.Events > 0 && e.o.Config.Secret.IsZero() {
		e.fail("log", "the key that seals it is not at "+e.o.Config.StorePath()+".log-key", "bring it back from where secrets are kept; a new one cannot go on with this log")
	}
	if found.Unknown > 0 {
		e.warn("calls", counted(int(found.Unknown), "call")+" of unknown outcome", "placet calls list --state unknown, then placet calls reconcile")
	}
}

// version compares what decides with the files here.
func (e *examination) version(found dispatch.Condition, shared bool, checked *Checked) {
	switch {
	case checked == nil:
	case found.Generation == 0:
		e.warn("version", "nothing was ever activated", "the server activates these files when it first starts")
	case found.Version == checked.active.Digest:
		e.ok("version", "version %d is active, and these files are it", found.Generation)
	case shared:
		e.warn("version", fmt.Sprintf("version %d is active, and these files are not it", found.Generation), "placet policy activate --plan shows what they would change; or take the active files")
	default:
		e.warn("version", fmt.Sprintf("version %d is active, and these files are not it", found.Generation), "placet reload brings them in")
	}
}

func (e *examination) issuers(ctx context.Context, checked *Checked) {
	for _, i := range e.o.Config.Issuers {
		ctx, cancel := context.WithTimeout(ctx, askedFor)
		n, err := checked.Verifier().Keys(ctx, i.Issuer)
		cancel()
		switch {
		case err != nil:
			e.fail("issuer", i.Issuer+": "+told(err), "see that it is reached from here; until then nobody of it is known")
		case n == 0:
			e.fail("issuer", i.Issuer+" publishes no key that fits its algorithms", "see algorithms of the issuer")
		default:
			e.ok("issuer", "%s: %s", i.Issuer, counted(n, "key"))
		}
	}
}

// toolServers asks each server for its tools, and calls none.
func (e *examination) toolServers(ctx context.Context, checked *Checked) {
	servers := OpenServers(toolmcp.Options{Log: e.o.Log, Now: e.o.Clock, LookupEnv: e.o.LookupEnv, Version: e.o.Version, Own: checked.Own}, e.o.world())
	defer func() { _ = servers.Close() }() // it has nothing to report
	for s := range checked.Registry().Servers() {
		if s.Inproc || s.Kind == registry.KindLease {
			continue // it is code of a program, or a framework runs it
		}
		ctx, cancel := context.WithTimeout(ctx, askedFor)
		offers, err := servers.ListOffers(ctx, s)
		cancel()
		if err != nil {
			e.fail("server", s.Name+": "+told(err), "see that it runs and is reached from here ("+s.Place+"); its calls fail until then")
			continue
		}
		e.ok("server", "%s offers %s", s.Name, counted(len(offers), "tool"))
	}
}

// serving asks the server itself, at its public address.
func (e *examination) serving(ctx context.Context) {
	const check = "serving"
	ctx, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	at := e.o.Config.PublicURL + "/readyz"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		e.fail(check, told(err), "mend public_url")
		return
	}
	resp, err := e.o.HTTP.Do(r)
	if err != nil {
		e.warn(check, at+" does not answer", "start the server, or see what stands before it")
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil || resp.StatusCode != http.StatusOK {
		e.fail(check, fmt.Sprintf("%s answers %d: calls are not decided there", at, resp.StatusCode), "read what it says, and the server's log")
		return
	}
	e.ok(check, "%s says that calls can be decided and recorded", at)
}

// Worst is the worst of what was found.
func Worst(found []Finding) Health {
	worst := Well
	for _, f := range found {
		if f.Status == Fails || f.Status == Worries && worst == Well {
			worst = f.Status
		}
	}
	return worst
}
