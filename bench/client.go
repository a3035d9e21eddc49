package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
)

// agent is an MCP client of revision 2026-07-28, which needs no session. It is
// plain on purpose: both sides of a ratio pay for the same client, and a heavy one
// would hide the difference.
type agent struct {
	http   *http.Client
	url    string
	tokens []string // by caller; none where no token is wanted
	serial *atomic.Int64
}

func newAgent(url string, tokens []string) *agent {
	return &agent{url: url, tokens: tokens, serial: new(atomic.Int64), http: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 128, DisableCompression: true}}}
}

const callBody = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}},` +
	`"name":"db.query","arguments":{"table":"orders","customer":"c-%08d"}}}`

// call makes one call and checks that the tool's own answer to it came back.
func (a *agent) call(ctx context.Context, caller int) error {
	n := a.serial.Add(1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(fmt.Appendf(nil, callBody, n, n)))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {toolName}}
	if len(a.tokens) > 0 {
		r.Header["Authorization"] = []string{"Bearer " + a.tokens[caller]}
	}
	resp, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	want := fmt.Appendf(nil, `c-%08d`, n)
	if resp.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("rows for ")) || !bytes.Contains(text, want) {
		return fmt.Errorf("HTTP %d: %.400s", resp.StatusCode, text)
	}
	return nil
}

// count asks the upstream how often its tool ran.
func count(ctx context.Context, address string) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/count", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}
