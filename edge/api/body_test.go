package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A call that runs longer than a body may take to arrive keeps its connection.
func TestBodyDeadlineEndsWithTheBody(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Body = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	post := func(body string) {
		fmt.Fprintf(conn, "POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s", h.anna()["Authorization"], len(body), body)
	}
	answer := func() reply {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{resp.StatusCode, resp.Header, string(text)}
	}
	post(`{"tool":"slow","arguments":{"order":"a"}}`)
	<-h.entered
	<-time.After(150 * time.Millisecond) // past the deadline
	h.gate <- struct{}{}
	h.want(answer(), 200, "")
	h.effects(1)
	fmt.Fprintf(conn, "GET /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n\r\n", h.anna()["Authorization"])
	h.want(answer(), 200, "") // with a context of its own that is still alive
}

func TestSlowBodyIsGivenUp(t *testing.T) {
	h := newHouse(t, func(o *Options) { o.Body = 50 * time.Millisecond })
	for _, who := range []string{h.anna()["Authorization"], "Bearer nobody"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: 100\r\n\r\n{\"tool\":", who)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := map[bool]int{true: 400, false: 401}[who != "Bearer nobody"]; resp.StatusCode != want {
			t.Errorf("%d, want %d", resp.StatusCode, want)
		}
	}
	h.effects(0)
}
