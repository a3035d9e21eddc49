package dispatch

import (
	"strings"
	"time"

	"github.com/placet-dev/placet/record"
)

// ParseTarget reads what is to be revoked as people write it: tool:NAME,
// tool:NAME@sha256:…, server:NAME, credential:NAME, tenant:NAME,
// principal:SUBJECT@ISSUER, agent:NAME, run:ID, schedule:ID, session:ID, or all.
func ParseTarget(text string) (RevokeOrder, error) {
	if text == string(record.RevokedAll) {
		return RevokeOrder{Kind: record.RevokedAll}, nil
	}
	kind, name, ok := strings.Cut(text, ":")
	o := RevokeOrder{Kind: record.RevokedKind(kind), Name: name}
	if !ok || name == "" {
		return o, notATarget(text)
	}
	switch o.Kind {
	case record.RevokedTool:
		tool, version, versioned := strings.Cut(name, "@")
		if !versioned {
			return o, nil
		}
		o.Kind, o.Name = record.RevokedVersion, tool
		if err := o.Version.UnmarshalText([]byte(version)); err != nil || o.Version.IsZero() || tool == "" {
			return o, record.Errorf(record.Invalid, "the version of a tool is sha256: and 64 lower-case hexadecimal digits, as its events and calls state it")
		}
	case record.RevokedPrincipal:
		at := strings.LastIndexByte(name, '@')
		if at <= 0 || at == len(name)-1 {
			return o, record.Errorf(record.Invalid, "write a person as principal:SUBJECT@ISSUER")
		}
		o.Name, o.Person = "", record.Principal{Subject: name[:at], Issuer: name[at+1:]}
	case record.RevokedServer, record.RevokedCredential, record.RevokedTenant, record.RevokedAgent, record.RevokedRun, record.RevokedSchedule, record.RevokedSession:
	default:
		return o, notATarget(text)
	}
	return o, nil
}

// Lasts reads how long a revocation counts, as people write it; empty: until it is undone.
func (o *RevokeOrder) Lasts(text string) (err error) {
	if text == "" {
		o.For = 0
		return nil
	}
	if o.For, err = time.ParseDuration(text); err != nil || o.For <= 0 {
		return record.Errorf(record.Invalid, "for is a time such as 1h30m")
	}
	return nil
}

func notATarget(text string) error {
	return record.Errorf(record.Invalid, "%q names nothing that can be revoked; write tool:NAME, server:NAME, credential:NAME, tenant:NAME, principal:SUBJECT@ISSUER, agent:NAME, run:ID, schedule:ID, session:ID, or all", text)
}
