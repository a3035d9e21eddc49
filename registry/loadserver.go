package registry

import (
	"encoding/json"
	"net"
	"net/url"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/guard"
	"github.com/placet-dev/placet/yamlfile"
)

func (b *builder) servers(f File, lock *Lock, folder string) {
	for _, e := range f.Servers {
		path := "servers." + e.Key
		switch {
		case !toolName.MatchString(e.Key):
			b.fail(e.Place, path, "a server's name is lower-case letters, digits and _ . -, and starts with a letter")
			continue
		case b.snapshot.servers[e.Key] != nil:
			b.fail(e.Place, path, "is named twice, first at %s", b.snapshot.servers[e.Key].Place)
			continue
		}
		s := &Server{
			Name: e.Key, Place: string(e.Place), URL: e.Value.URL, Command: e.Value.Command, Env: e.Value.Env,
			Stateless: e.Value.Stateless, InputRequired: e.Value.InputRequired, ToolsMaxAge: e.Value.ToolsMaxAge,
			Sampling: e.Value.Sampling, DispatchToken: e.Value.DispatchToken, Credential: e.Value.Credential, Database: e.Value.Database,
			Queries: beside(folder, e.Value.Queries), Operations: beside(folder, e.Value.Operations), queries: e.Value.Queries, operations: e.Value.Operations,
		}
		b.kind(e.Place, path, s, e.Value)
		b.located(e.Place, path, s, e.Value.Network)
		b.checkServer(e.Place, path, s)
		b.pinServer(e.Place, path, s, lock)
		s.Digest = serverDigest(s)
		b.snapshot.servers[s.Name] = s
	}
}

func (b *builder) checkServer(place yamlfile.Place, path string, s *Server) {
	switch {
	case s.URL != "":
		b.checkURL(place, path+".url", s)
	}
	for _, c := range s.Command {
		if strings.ContainsAny(c, "\x00\n\r") {
			b.fail(place, path+".command", "holds a line break or a zero byte")
		}
	}
	for _, name := range s.Env {
		if !envName.MatchString(name) {
			b.fail(place, path+".env", "wants names of variables, without values")
		}
	}
	if len(s.Env) > 0 && s.URL != "" {
		b.fail(place, path+".env", "is for commands; a url has no environment")
	}
	if s.Sampling && !s.InputRequired {
		b.fail(place, path+".sampling", "is one of the questions of input_required; set that too")
	}
	if p, fetched := PackageOf(s.Command); fetched && (p.Name == "" || p.Version == "") {
		b.fail(place, path+".command", "must name one exact version of the package it fetches, such as name@1.2.3")
	}
}

func (b *builder) checkURL(place yamlfile.Place, path string, s *Server) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Fragment != "" {
		b.fail(place, path, "wants an http(s) URL with a host and without user, password or fragment")
		return
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		b.warn(place, path, "is plain HTTP beyond this machine: anyone on the way can read and change calls")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// pinServer attaches what the lock holds. A command without its pin, or with
// that of another version, quarantines every tool of the server.
func (b *builder) pinServer(place yamlfile.Place, path string, s *Server, lock *Lock) {
	pin, ok := lock.Servers[s.Name]
	if ok {
		s.Pin = &pin
	}
	p, fetched := PackageOf(s.Command)
	switch {
	case len(s.Command) == 0:
	case !ok:
		b.snapshot.held[s.Name] = "the server's command is not in tools.lock"
	case fetched && (pin.Package != p.Name || pin.Version != p.Version):
		b.snapshot.held[s.Name] = "tools.lock holds " + pin.Package + " " + pin.Version + ", the command names " + p.Name + " " + p.Version
	case fetched && pin.Integrity == "", !fetched && pin.Executable.IsZero():
		b.snapshot.held[s.Name] = "tools.lock holds no hash of the server's command"
	}
	if why := b.measured(s); why != "" {
		b.snapshot.held[s.Name] = why
	}
	if why, held := b.snapshot.held[s.Name]; held {
		b.warn(place, path, "is quarantined: %s; review it with: placet tools add %s", why, s.Name)
	}
}

// measured compares a pinned command with what would run now. What cannot be
// measured is not known to be what was reviewed.
func (b *builder) measured(s *Server) (why string) {
	if _, held := b.snapshot.held[s.Name]; held || len(s.Command) == 0 || b.options.Measure == nil {
		return ""
	}
	now, err := b.options.Measure(s.Command)
	if err != nil {
		return "what the server's command would run cannot be measured: " + err.Error()
	}
	if err := s.Pin.Check(now); err != nil {
		return "the server's command " + err.Error()
	}
	return ""
}

// serverDigest covers what decides how calls reach the server, and its pin.
func serverDigest(s *Server) canon.Digest {
	normal, err := json.Marshal(struct {
		Name, URL     string
		Command, Env  []string
		Stateless     bool
		Inproc        bool
		InputRequired bool
		ToolsMaxAge   string
		Pin           *ServerPin
		// These came later: they leave the digests of servers without them.
		DispatchToken bool        `json:",omitempty"`
		Credential    string      `json:",omitempty"`
		Kind          Kind        `json:",omitempty"`
		Queries       string      `json:",omitempty"`
		Database      string      `json:",omitempty"`
		Operations    string      `json:",omitempty"`
		Files         string      `json:",omitempty"`
		Sampling      bool        `json:",omitempty"`
		Network       guard.Zones `json:",omitempty"`
	}{s.Name, s.URL, s.Command, s.Env, s.Stateless, s.Inproc, s.InputRequired, s.ToolsMaxAge.String(), s.Pin, s.DispatchToken, s.Credential,
		s.Kind, s.queries, s.Database, s.operations, s.Files.String(), s.Sampling, s.Network})
	if err != nil {
		// Only text, numbers and booleans are encoded: this cannot fail, and if
		// it did, an own digest for each load would void approvals, not keep them.
		normal = []byte(s.Place)
	}
	return canon.Of("placet/server/1", normal)
}
