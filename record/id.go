package record

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
)

// The kinds of name. Each is a type of its own, so that one cannot stand in for
// another. None of them authorises anything: an ID says which, never who may.
type (
	// TenantID names the isolation unit. Every row carries one.
	TenantID string
	// AgentID names the workload that makes calls (OAuth's act, azp or client_id).
	AgentID string
	// RunID, CallID, ApprovalID and LineageID are minted here: prefix + 128 bits.
	RunID      string
	CallID     string
	ApprovalID string
	LineageID  string
	// Turn counts the spans between one user input and the next; a run without
	// turn signals stays in turn 1.
	Turn int64
)

// Principal is the human or service on whose behalf a call is made. The subject
// alone is not unique: it is always qualified by its issuer.
type Principal struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// String is for people: subject@issuer.
func (p Principal) String() string { return p.Subject + "@" + p.Issuer }

// Group is a group as one issuer asserts it. Two issuers' equal names are two groups.
type Group struct {
	Issuer string `json:"issuer"`
	Name   string `json:"name"`
}

// Owner is who a run, a call and an approval belong to. Every use of one of
// them compares all three.
type Owner struct {
	Tenant    TenantID  `json:"tenant"`
	Principal Principal `json:"principal"`
	Agent     AgentID   `json:"agent"`
}

var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns prefix + "_" + 26 characters: 48 bits of milliseconds and 80 of
// randomness, so that IDs sort by time. Unpredictability is hygiene, not
// authorisation. It fails only if the source of randomness does.
func NewID(prefix string, now time.Time, random io.Reader) (string, error) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	if _, err := io.ReadFull(random, b[6:]); err != nil {
		return "", fmt.Errorf("read randomness for a %s id: %w", prefix, err)
	}
	return prefix + "_" + idText.EncodeToString(b[:]), nil
}

// ValidID reports whether s has the shape NewID gives for prefix.
func ValidID(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != 26 {
		return false
	}
	_, err := idText.DecodeString(rest)
	return err == nil
}

// UnvouchedLineage is the one lineage of all runs that a tenant, principal and
// agent open without vouch (rule B1), whatever session, run name or token they
// use. The epoch rises when the person starts fresh.
func UnvouchedLineage(o Owner, epoch int64) LineageID {
	d := canon.Of("placet/lineage/1", []byte(o.Tenant), []byte(o.Principal.Issuer),
		[]byte(o.Principal.Subject), []byte(o.Agent), binary.BigEndian.AppendUint64(nil, uint64(epoch)))
	return LineageID("lin_" + idText.EncodeToString(d[:16]))
}

// String is the turn's number.
func (t Turn) String() string { return strconv.FormatInt(int64(t), 10) }
