package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// signIn runs placet login, and is the browser of its user at the development
// issuer: signin CODE USER URL ARGUMENTS…. The user "refuse" clicks Refuse.
func signIn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("signin: wrong use")
	}
	var program string
	for _, dir := range strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if p := dir + "/placet"; program == "" && executable(p) {
			program = p
		}
	}
	cmd := exec.Command(program, append([]string{"login", args[2], "--no-browser"}, args[3:]...)...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}
	var printed strings.Builder
	cmd.Stdout = &printed
	said, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	for lines := bufio.NewScanner(said); lines.Scan(); {
		printed.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "http") {
			ts.Check(browseAs(lines.Text(), args[1]))
		}
	}
	err = cmd.Wait()
	code, ended := 0, (*exec.ExitError)(nil)
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("placet login ended with %d, not %s:\n%s", code, args[0], printed.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs("signin.out"), []byte(printed.String()), 0o600))
}

var hiddenField = regexp.MustCompile(`name="request" value="([^"]+)"`)

// browseAs opens a sign-in page, and clicks.
func browseAs(address, user string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	c := &http.Client{Jar: jar}
	r, err := c.Get(address)
	if err != nil {
		return err
	}
	page, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return err
	}
	m := hiddenField.FindSubmatch(page)
	if m == nil {
		return fmt.Errorf("no sign-in page: %s", page)
	}
	form := url.Values{"request": {string(m[1])}, "user": {user}}
	if user == "refuse" {
		form = url.Values{"request": {string(m[1])}, "refuse": {"yes"}}
	}
	r, err = c.PostForm(r.Request.URL.ResolveReference(&url.URL{Path: "login"}).String(), form)
	if err != nil {
		return err
	}
	return r.Body.Close()
}
