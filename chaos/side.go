package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/store/postgres"
	"github.com/placet-dev/placet/store/postgres/pgtest"
	"github.com/placet-dev/placet/store/sqlite"
)

// side is one store with the servers before it.
type side struct {
	name     string // postgres or sqlite
	dir      string
	url      string // what callers know it as, whichever replica answers
	program  string
	env      []string
	replicas []*replica
	operator string // key of the workload that reads and reconciles
	http     *http.Client
	crowd    *crowd

	published string // file of checkpoints, beside the store
	past      past   // what a restore of this side needs and left

	database *pgtest.Server // postgres
	small    *smallDisk     // sqlite, where a small file system could be mounted; or nil

	account *account
	issuer  *issuer
	mu      sync.Mutex
	tokens  map[string]minted

	done    atomic.Int64 // calls that callers were told had succeeded
	allowed atomic.Int64 // how many that may be, before callers wait
	refused atomic.Int64 // requests that nobody answered, or with "not now"
}

// minted is a token that somebody has.
type minted struct {
	text string
	made time.Time
}

const settings = `version: 1
environment: test
listen: %s
public_url: %s
store: %s
registry: [tools.yaml]
ingress: {per_second: 100000, burst: 100000}
quota: {events: 100000000, reserve: 1000}
runs: {calls_per_run: 10000000, proposals_open: 100000, proposals_open_turn: 100000, proposals_open_principal: 100000}
money: {per_day: {EUR: "%d"}}
checkpoint: {every: 1s, publish: ["file:checkpoints.jsonl"]}
issuers:
  - {issuer: %q, keys: issuer.jwks.json, algorithms: [EdDSA], token_types: [at+jwt], tenant: dev, claims: {subject: sub, agent: client_id, scopes: scope, groups: groups}, delegation: {client_id: placet, client_secret: env:CHAOS_SECRET, max: 24h}}
workloads:
  operator: {key: "file:operator.keyhash", tenant: dev, permissions: [read, operate]}
telemetry: {log: warn}
`

const (
	purse  = 100 // what a principal may spend
	stamps = 4   // how often a lineage may call stamp
	lease  = 13 * time.Second
)

// registry is what the tools may do. A lease is the timeout and ten seconds.
const registry = `version: 1
servers:
  desk: {url: %q}
  orders: {operations: operations.yaml}
  app: {lease: true}
tools:
  look:  {server: desk, scope: act, read: true, per_minute: 0, concurrent: 0, timeout: 3s}
  note:  {server: desk, scope: act, write: true, sources: [direct], approval: {when: asked}, per_minute: 0, concurrent: 0, timeout: 3s}
  wire:  {server: desk, scope: act, write: true, sources: [direct], approval: {when: always, approvers: ["group:leads"]}, per_minute: 0, concurrent: 0, timeout: 3s}
  draw:  {server: desk, scope: act, write: true, sources: [direct], approval: {when: asked}, cost: {argument: amount, currency: EUR}, per_minute: 0, concurrent: 0, timeout: 3s}
  stamp: {server: desk, scope: act, write: true, sources: [direct], approval: {when: asked}, per_run: %d, per_minute: 0, concurrent: 0, timeout: 3s}
  line:  {server: orders, scope: act, write: true, sources: [direct], approval: {when: asked}, retry: idempotent, per_minute: 0, concurrent: 0, timeout: 3s}
  later: {server: orders, scope: act, write: true, sources: [direct], approval: {when: asked}, retry: idempotent, dispatch: queued, per_minute: 0, concurrent: 0, timeout: 3s}
  once:  {server: desk, scope: act, write: true, sources: [direct], approval: {when: asked}, dispatch: queued, per_minute: 0, concurrent: 0, timeout: 3s}
  chime: {server: orders, scope: act, write: true, sources: [direct], approval: {when: asked}, retry: idempotent, schedules: allowed, per_minute: 0, concurrent: 0, timeout: 3s}
  here:  {server: app, schema: here.json, scope: act, write: true, sources: [direct], approval: {when: asked}, per_minute: 0, concurrent: 0, timeout: 3s}
`

const operations = `version: 1
base: http://%s/%s
networks: [127.0.0.0/8]
operations:
%s`

const operation = `  %[1]s:
    description: Adds a line.
    method: POST
    path: /%[1]s
    parameters:
      n: {in: body, type: integer}
    idempotency_header: Idempotency-Key
    result: [id]
`

// prepare writes the files of a side and its first keys.
func (s *side) prepare(ctx context.Context, tools *toolServer, store string, replicas int) error {
	var addresses []string
	for range replicas {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	s.url, s.tokens = "http://"+addresses[0], map[string]minted{}
	s.http = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	name := "http://" + tools.at + "/" + s.name + "/issuer"
	local, err := identity.NewLocal(name, rand.Reader, time.Now)
	if err != nil {
		return err
	}
	s.account = tools.account
	s.issuer = &issuer{local: local, audience: s.url + "/mcp", chance: tools.chances()}
	tools.mux.Handle("/"+s.name+"/issuer/", s.issuer)
	keys, err := local.JWKS()
	if err != nil {
		return err
	}
	ops := ""
	for _, tool := range honouring {
		ops += fmt.Sprintf(operation, tool)
	}
	files := map[string]string{
		"tools.yaml":       fmt.Sprintf(registry, "http://"+tools.at+"/"+s.name+"/mcp", stamps),
		"operations.yaml":  fmt.Sprintf(operations, tools.at, s.name, ops),
		"here.json":        schema,
		"issuer.jwks.json": string(keys),
	}
	s.env = append(s.env, "CHAOS_SECRET=a secret of this run")
	s.published = filepath.Join(s.dir, "checkpoints.jsonl")
	for n, address := range addresses {
		r := &replica{side: s, name: fmt.Sprintf("%s-%d", s.name, n+1), address: address, config: fmt.Sprintf("placet-%d.yaml", n+1)}
		files[r.config] = fmt.Sprintf(settings, address, s.url, store, purse, name)
		s.replicas = append(s.replicas, r)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "keys"), 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if s.operator, err = s.placet(ctx, "keys", "new", "operator.keyhash", "--days", "1"); err != nil {
		return err
	}
	for _, server := range []string{"desk", "orders", "app"} {
		if _, err := s.placet(ctx, "tools", "lock", server, "--config", s.replicas[0].config); err != nil {
			return err
		}
	}
	return nil
}

// says runs a command of the program to its end, and returns what it says.
func (s *side) says(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Dir, cmd.Env = s.dir, append(append(os.Environ(), s.env...), "PLACET_WORKLOAD_KEY="+s.operator)
	text, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("placet %s: %w\n%s", strings.Join(args, " "), err, stderrOf(err))
	}
	return string(text), err
}

// placet runs a command of the program to its end, and returns the last word it says.
func (s *side) placet(ctx context.Context, args ...string) (string, error) {
	text, err := s.says(ctx, args...)
	if err != nil {
		return "", err
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return "", nil
	}
	return words[len(words)-1], nil
}

func stderrOf(err error) []byte {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.Stderr
	}
	return nil
}

// bearer is a token of somebody: an agent's for its user, or an approver's own.
func (s *side) bearer(who string, approver bool) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tokens[who]; ok && time.Since(t.made) < 5*time.Minute {
		return t.text, nil
	}
	spec := identity.TokenSpec{Audience: s.url + "/mcp", Subject: who, Tenant: "dev", Agent: "bot", Scopes: []string{"act"}}
	if approver {
		spec.Audience, spec.Agent, spec.Scopes, spec.Groups = s.url+"/console", "", nil, []string{"leads"}
	}
	text, err := s.issuer.local.Sign(spec)
	s.tokens[who] = minted{text, time.Now()}
	return text, err
}

// openPostgres starts a cluster and makes the store in it.
func openPostgres(ctx context.Context, dir, program string, tools *toolServer) (*side, error) {
	server, err := pgtest.New()
	if err != nil {
		return nil, err
	}
	s := &side{name: "postgres", dir: filepath.Join(dir, "postgres"), program: program, database: server}
	s.env = []string{"CHAOS_STORE=" + server.DSN("placet", "chaos"), "CHAOS_OWNER=" + server.DSN("owner", "chaos"), "CHAOS_SHARED=what the three servers share in this run"}
	for _, q := range [][2]string{{"postgres", "CREATE DATABASE chaos"}, {"chaos", "CREATE ROLE placet LOGIN PASSWORD 's3cret-placet'"}} {
		if _, err := server.Query(q[0], q[1]); err != nil {
			return s, err
		}
	}
	if err := s.prepare(ctx, tools, "env:CHAOS_STORE\nkeys: keys\nsecret: env:CHAOS_SHARED", 3); err != nil {
		return s, err
	}
	_, err = s.placet(ctx, "migrate", "--owner", "env:CHAOS_OWNER", "--config", s.replicas[0].config)
	return s, err
}

// openSQLite makes the other side, on a disk of its own where that may be mounted.
func openSQLite(ctx context.Context, dir, program string, tools *toolServer, megabytes int) (*side, error) {
	s := &side{name: "sqlite", dir: filepath.Join(dir, "sqlite"), program: program}
	disk := filepath.Join(s.dir, "disk")
	if err := os.MkdirAll(disk, 0o700); err != nil {
		return s, err
	}
	s.small = mountSmall(disk, megabytes)
	return s, s.prepare(ctx, tools, "sqlite:disk/state.db", 1)
}

// records opens the store when its servers have ended, or the one that gave way to it.
func (s *side) records(ctx context.Context, lost bool) (recorded, error) {
	database, file := "chaos", filepath.Join(s.dir, "disk", "state.db")
	if lost {
		database, file = "lost", s.file("lost.db")
	}
	if s.database != nil {
		return postgres.Open(ctx, s.database.DSN("placet", database), postgres.Options{})
	}
	return sqlite.Open(ctx, file, sqlite.Options{})
}

func (s *side) file(name string) string { return filepath.Join(s.dir, name) }

// close ends what the side started.
func (s *side) close() {
	for _, r := range s.replicas {
		r.end()
	}
	if s.database != nil {
		s.database.Close()
	}
	if s.small != nil {
		s.small.unmount()
	}
}
