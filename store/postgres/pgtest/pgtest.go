// Package pgtest starts real PostgreSQL servers for tests, from what is installed in
// /usr/lib/postgresql, each with its own data, on a free port of loopback. A server
// ends with the test that started it, or with the test binary ([Main]).
//
// Programs that are tests themselves take one with [New].
//
// It may import the testing package and pgx.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a running PostgreSQL. Its superuser is "owner"; the password of every
// role is "s3cret-" and its name.
type Server struct {
	Port int

	bin, dir string
	as       *syscall.SysProcAttr
	settings []string
	process  *exec.Cmd
	made     atomic.Int64 // databases
}

// absent says why there can be no server here.
type absent string

func (a absent) Error() string { return string(a) }

// Start starts a server for one test. It skips the test, and says why, where
// PostgreSQL is not installed. settings are "name=value", beside those of tests.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := New(settings...)
	if err != nil {
		give(t, err)
	}
	t.Cleanup(s.Close)
	return s
}

// Absent reports whether New failed since there can be no server here.
func Absent(err error) bool {
	var none absent
	return errors.As(err, &none)
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
	main   bool
}

// Main runs a package's tests; the server that they share ends behind them.
func Main(m *testing.M) int {
	shared.main = true
	defer func() {
		if shared.server != nil {
			shared.server.Close()
		}
	}()
	return m.Run()
}

// Shared is the one server of the test binary, started when it is first wanted.
func Shared(t testing.TB) *Server {
	t.Helper()
	if !shared.main {
		t.Fatal("a package that shares a server has TestMain call pgtest.Main")
	}
	shared.once.Do(func() { shared.server, shared.err = New() })
	if shared.err != nil {
		give(t, shared.err)
	}
	return shared.server
}

func give(t testing.TB, err error) {
	t.Helper()
	if Absent(err) {
		t.Skip(err)
	}
	t.Fatal(err)
}

// New starts a server that its caller closes.
func New(settings ...string) (*Server, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return nil, absent("PostgreSQL is not installed in /usr/lib/postgresql")
	}
	// A test binary that crashes cleans nothing up: its server ends with it.
	s := &Server{bin: filepath.Dir(slices.Max(found)), as: &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}, settings: settings}
	// PostgreSQL refuses to run as root, and its user must reach the folder.
	var err error
	if s.dir, err = os.MkdirTemp("", "placet-postgres-"); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, absent("PostgreSQL refuses root, and there is no user nobody")
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		s.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return nil, err
		}
	}
	secret := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(secret, []byte("s3cret-owner"), 0o644); err != nil {
		return nil, err
	}
	if out, err := s.command("initdb", "-D", s.data(), "-U", "owner", "--pwfile", secret, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Port = free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	if err := s.Run(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Command is one of PostgreSQL's own programs, of the server's version.
func (s *Server) Command(name string, args ...string) *exec.Cmd { return s.command(name, args...) }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.SysProcAttr, c.Dir, c.Env = s.as, s.dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	return c
}

// Program is one of those that are installed with the server.
func (s *Server) Program(name string) string { return filepath.Join(s.bin, name) }

// Run starts the process, at first or after [Server.Crash], and waits until it answers.
func (s *Server) Run() error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "deadlock_timeout=100ms", "-c", "max_connections=400", "-c", "max_locks_per_transaction=256"}
	for _, set := range s.settings {
		args = append(args, "-c", set)
	}
	s.process = s.command("postgres", args...)
	if err := s.process.Start(); err != nil {
		return err
	}
	for end := time.After(30 * time.Second); ; {
		c, err := pgx.Connect(context.Background(), s.DSN("owner", "postgres"))
		if err == nil {
			return c.Close(context.Background())
		}
		select {
		case <-end:
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Crash ends the server without a chance to clean up; Restart starts it again with the
// data that it has.
func (s *Server) Crash() {
	_ = s.process.Process.Signal(syscall.SIGQUIT) // an immediate shutdown
	_ = s.process.Wait()
}

// Restart starts a server that ended.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
}

// Close ends the server and removes its data.
func (s *Server) Close() {
	if s.process != nil && s.process.Process != nil {
		_ = s.process.Process.Signal(syscall.SIGINT) // a fast shutdown
		_ = s.process.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// DSN is a connection string.
func (s *Server) DSN(role, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(role, "s3cret-"+role), Host: "127.0.0.1:" + strconv.Itoa(s.Port),
		Path: "/" + database, RawQuery: "sslmode=disable"}).String()
}

// Database makes an empty database, and returns its name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.DatabaseFrom(t, "template1")
}

// DatabaseFrom makes a copy of a database that nobody uses.
func (s *Server) DatabaseFrom(t testing.TB, template string) string {
	t.Helper()
	name := "test_" + strconv.FormatInt(s.made.Add(1), 10)
	s.Do(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+template)
	return name
}

// Do runs statements as the superuser, and returns the last one's rows.
func (s *Server) Do(t testing.TB, database, sql string) string {
	t.Helper()
	rows, err := s.Query(database, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// Try runs statements as Do does, where they may fail.
func (s *Server) Try(t testing.TB, database, sql string) error {
	t.Helper()
	_, err := s.Query(database, sql)
	return err
}

// Query runs statements as the superuser, and returns the last one's rows.
func (s *Server) Query(database, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("owner", database))
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	var rows []string
	for _, r := range results[len(results)-1].Rows {
		var cells []string
		for _, cell := range r {
			cells = append(cells, string(cell))
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return strings.Join(rows, "\n"), nil
}
