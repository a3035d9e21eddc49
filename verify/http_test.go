package verify

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/placet-dev/placet/credential"
)

// guarded is a server behind the middleware, which notes what reached it.
type guarded struct {
	*house
	ledger []string
	http.Handler
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{house: newHouse(t)}
	g.Handler = g.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		call, _ := FromContext(r.Context())
		g.ledger = append(g.ledger, r.Method+" "+call.Principal.Subject+" "+string(text))
	}))
	return g
}

func (g *guarded) send(method, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/mcp", strings.NewReader(body))
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func with(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(Header, token) }
}

const callText = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"x":1},"name":"refund","arguments":` + refund + `}}`

func TestMiddlewareLetsTheDispatchedCallThrough(t *testing.T) {
	g := newGuarded(t)
	if w := g.send("POST", callText, with(g.token())); w.Code != http.StatusOK || len(g.ledger) != 1 || g.ledger[0] != "POST anna "+callText {
		t.Fatalf("%d %s %q", w.Code, w.Body, g.ledger)
	}
	for name, arguments := range map[string]string{
		"large": `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, // as large as Placet takes
		"deep":  `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
	} {
		token := g.token(func(c *credential.Claims) { c.Arguments = []byte(arguments) })
		if w := g.send("POST", strings.Replace(callText, refund, arguments, 1), with(token)); w.Code != http.StatusOK {
			t.Errorf("%s arguments: %d %.200s", name, w.Code, w.Body)
		}
	}
	g.ledger = g.ledger[:1]
	input := strings.Replace(callText, `"name"`, `"requestState":"s","inputResponses":{"a":1},"name"`, 1)
	answers := func(c *credential.Claims) { c.Input = []byte(`{"inputResponses":{"a":1},"requestState":"s"}`) }
	if w := g.send("POST", input, with(g.token(answers))); w.Code != http.StatusOK || len(g.ledger) != 2 {
		t.Errorf("with answers: %d %s", w.Code, w.Body)
	}
	for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		if w := g.send("POST", body); w.Code != http.StatusOK {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if w := g.send(method, ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// TestMiddlewareRefuses: nothing of this reaches the server behind it.
func TestMiddlewareRefuses(t *testing.T) {
	g := newGuarded(t)
	used := g.token()
	g.send("POST", callText, with(used))
	g.ledger = nil
	edit := func(from, to string) string { return strings.Replace(callText, from, to, 1) }
	for name, c := range map[string]struct {
		body  string
		edits []func(*http.Request)
	}{
		"no token":                  {callText, nil},
		"used":                      {callText, []func(*http.Request){with(used)}},
		"other arguments":           {edit("60.5", "605"), []func(*http.Request){with(g.token())}},
		"other tool":                {edit(`"refund"`, `"wipe"`), []func(*http.Request){with(g.token())}},
		"several tokens":            {callText, []func(*http.Request){func(r *http.Request) { r.Header[Header] = []string{g.token(), g.token()} }}},
		"answers nobody signed":     {edit(`"name"`, `"inputResponses":{},"name"`), []func(*http.Request){with(g.token())}},
		"another method":            {edit("tools/call", "resources/read"), []func(*http.Request){with(g.token())}},
		"a method to come":          {edit("tools/call", "tools/run"), []func(*http.Request){with(g.token())}},
		"method in another case":    {edit("tools/call", "Tools/Call"), []func(*http.Request){with(g.token())}},
		"a batch":                   {"[" + callText + "]", []func(*http.Request){with(g.token())}},
		"two messages":              {`{"jsonrpc":"2.0","id":1,"method":"ping"}` + callText, nil},
		"method twice":              {edit(`"method"`, `"method":"ping","method"`), nil},
		"method twice, case":        {edit(`"method"`, `"Method":"ping","method"`), []func(*http.Request){with(g.token())}},
		"long s in params":          {`{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}`, nil},
		"arguments in another case": {edit(`"arguments"`, `"Arguments":{"amount":605},"arguments"`), []func(*http.Request){with(g.token())}},
		"name twice":                {edit(`"name"`, `"name":"wipe","name"`), []func(*http.Request){with(g.token())}},
		"method and result":         {edit(`"method"`, `"result":{},"method"`), nil},
		"neither":                   {`{"jsonrpc":"2.0","id":1}`, nil},
		"not JSON":                  {"x", nil},
		"nothing":                   {"", nil},
		"encoded":                   {callText, []func(*http.Request){with(g.token()), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }}},
		"too large":                 {edit(refund, `"`+strings.Repeat("x", 5<<20)+`"`), []func(*http.Request){with(g.token())}},
	} {
		w := g.send("POST", c.body, c.edits...)
		if w.Code < 400 || w.Code > 404 || len(g.ledger) != 0 {
			t.Errorf("%s: %d, reached the server: %.200q", name, w.Code, g.ledger)
			g.ledger = nil
		}
		if strings.Contains(w.Body.String(), used) {
			t.Errorf("%s: the answer holds a token", name)
		}
	}
	if w := g.send("PUT", callText, with(g.token())); w.Code < 400 || len(g.ledger) != 0 {
		t.Errorf("PUT: %d", w.Code)
	}
	w := g.send("POST", callText)
	var body struct {
		ID    int
		Error struct {
			Code int
			Data struct{ Reason Reason }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 401 || body.ID != 7 || body.Error.Code != -32602 || body.Error.Data.Reason != NoToken || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
}

// FuzzMiddleware: what reaches the server without a token runs nothing, as
// encoding/json reads it, which folds case and takes the last of equal names.
func FuzzMiddleware(f *testing.F) {
	for _, s := range []string{callText, `{"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call"}`, `[{"method":"tools/call"}]`, `{"id":1,"result":{},"metho\u0064":"tools/call"}`, `{"jsonrpc":"2.0","method":"notifications/x","Params":{"name":"y"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readMessage(text)
		if err != nil || m.guarded() {
			return
		}
		var lenient struct{ Method string }
		if err := json.Unmarshal(text, &lenient); err != nil {
			t.Errorf("%q came through and cannot be read: %v", text, err)
		}
		if lenient.Method != m.method {
			t.Errorf("%q came through as %q and is read as %q", text, m.method, lenient.Method)
		}
		if !m.response && !harmless(lenient.Method) {
			t.Errorf("%q came through", text)
		}
	})
}
