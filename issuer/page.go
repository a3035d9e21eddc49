package issuer

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
)

const style = `body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
form, .warning { margin: .75rem 0; padding: .75rem; border: 1px solid; }
button { font: inherit; padding: .4rem .8rem; }
input { font: inherit; }
.problem { font-weight: bold; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } a { color: #9cf; } }`

// styleHash is what lets the pages' one style apply, and no other.
var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// The style is outside the templates' own: its hash must be of what is sent.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"style": func() template.HTML { return "<style>" + style + "</style>" },
}).Parse(`{{define "top"}}<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.}}</title>
{{style}}
</head>
<body>
<main>
<h1>{{.}}</h1>
{{end}}
{{define "bottom"}}</main>
</body>
</html>
{{end}}
{{define "warning"}}<p class="warning">This is a development server. Nobody here is real, and whoever can open this page
can be any of them.</p>
{{end}}
{{define "login"}}{{template "top" "Sign in"}}
<p><strong>{{.Client}}</strong> asks you to sign in, {{if .Approves}}to answer approvals{{else}}to act for you{{end}}
at <code>{{.For}}</code>.{{if .Scopes}} It asks for: {{range .Scopes}}<code>{{.}}</code> {{end}}{{end}}
Afterwards you return to <code>{{.ReturnsTo}}</code>.</p>
{{if .Problem}}<p class="problem" role="alert">{{.Problem}}</p>
{{end}}{{$request := .Request}}{{range $n, $p := .People}}<form method="post" action="login">
<input type="hidden" name="request" value="{{$request}}">
<input type="hidden" name="user" value="{{.Subject}}">
{{if .Password}}<p><label for="password-{{$n}}">Password of {{.Name}}</label>
<input id="password-{{$n}}" type="password" name="password" autocomplete="off" required></p>
{{end}}<button type="submit">{{.Name}}</button>
<span>{{.Tenant}}{{range .Groups}}, {{.}}{{end}}</span>
</form>
{{end}}<form method="post" action="login">
<input type="hidden" name="request" value="{{.Request}}">
<button type="submit" name="refuse" value="yes">Refuse</button>
</form>
{{template "warning"}}{{template "bottom"}}{{end}}
{{define "message"}}{{template "top" "Sign in"}}
<p>{{.}}</p>
{{template "bottom"}}{{end}}
{{define "welcome"}}{{template "top" "The development issuer"}}
{{template "warning"}}<p>Give <code>{{.Audience}}</code> to an MCP client: it finds this issuer, and opens the sign-in page here.
Clients discover it as <code>{{.URL}}</code>.</p>
<h2>Who may sign in</h2>
<ul>
{{range .People}}<li>{{.Name}} (<code>{{.Subject}}</code>): {{.Tenant}}{{range .Groups}}, {{.}}{{end}}</li>
{{end}}</ul>
<h2>Clients</h2>
<ul>
{{range .Clients}}<li><code>{{.}}</code></li>
{{end}}</ul>
{{template "bottom"}}{{end}}
`))
