package main

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	placet "github.com/placet-dev/placet"
	"github.com/placet-dev/placet/config"
	"github.com/placet-dev/placet/identity"
	"github.com/placet-dev/placet/record"
)

// configFlag names the configuration.
type configFlag struct {
	Config string `default:"placet.yaml" short:"c" placeholder:"FILE" help:"The configuration (default: placet.yaml)."`
}

// load reads the configuration.
func (f configFlag) load() (*config.Config, error) {
	c, err := config.Load(f.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, record.Errorf(record.NotFound, "there is no %s; write one with placet init, or name it with --config", f.Config)
	}
	return c, err
}

// options is what the configuration is opened with.
func (p *program) options(c *config.Config) placet.Options {
	return placet.Options{Config: c, LookupEnv: p.env, Version: version(), Log: p.logger(c)}
}

// logger writes JSON to stderr, from the configured level on.
func (p *program) logger(c *config.Config) *slog.Logger {
	level := map[config.LogLevel]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	return slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: level[c.Telemetry.Log]}))
}

// certificates reads the server's certificate; none where plain HTTP is served.
func certificates(c *config.Config) (*tls.Config, error) {
	if c.TLS == nil {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.TLS.Certificate, c.TLS.Key)
	if err != nil {
		return nil, record.Errorf(record.Invalid, "%s: tls: %w", c.File(), err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.AsksForCertificates() {
		// The handshake shows that a client holds its certificate's key. Whose it is,
		// and whether it counts, package identity says at every request: as an answer,
		// not as a broken handshake, and by the roots of that moment.
		t.ClientAuth = tls.RequestClientCert
	}
	return t, nil
}

// listen binds the configured address. Port 0 takes a free one; what the
// configuration derived from the address then follows it.
func listen(c *config.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, record.Because(record.Unavailable, err, "cannot listen on %s", c.Listen)
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port != "0" {
		return l, nil
	}
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	moved(c, net.JoinHostPort(host, port))
	return l, nil
}

func moved(c *config.Config, address string) {
	scheme := "http://"
	if c.TLS != nil {
		scheme = "https://"
	}
	audience := c.Audience()
	if c.PublicURL == scheme+c.Listen {
		c.PublicURL = scheme + address
	}
	c.Listen = address
	for _, i := range c.Issuers {
		for n, a := range i.Audience {
			if a == audience {
				i.Audience[n] = c.Audience()
			}
		}
	}
}

// issuerFile is where the development issuer's key lies: beside the configuration.
func issuerFile(c *config.Config) string {
	return filepath.Join(c.Folder(), ".placet", "dev-issuer.json")
}

// localIssuer loads the development issuer, or makes it where there is none.
func localIssuer(c *config.Config) (*identity.Local, error) {
	path := issuerFile(c)
	l, err := identity.LoadLocal(path, rand.Reader, time.Now)
	if !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	if l, err = identity.NewLocal(placet.LocalIssuer, rand.Reader, time.Now); err != nil {
		return nil, err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	// Whoever holds the key is anybody: it must not get into a repository.
	if err := os.WriteFile(filepath.Join(folder, ".gitignore"), []byte("*\n"), 0o644); err != nil {
		return nil, err
	}
	if err := l.Save(path); errors.Is(err, fs.ErrExist) {
		return identity.LoadLocal(path, rand.Reader, time.Now) // somebody made it meanwhile
	} else if err != nil {
		return nil, err
	}
	return l, nil
}
