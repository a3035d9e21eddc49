package connect

import (
	"context"
	"os/exec"
	"runtime"
)

// Browser opens the platform's browser.
func Browser(_ context.Context, url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	// Not bound to a context: the browser stays when the sign-in is over.
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it may be the browser itself
	return nil
}
