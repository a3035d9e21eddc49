package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// runOddChild is a stdio server that misbehaves, written by hand because a
// library would not let it.
func runOddChild(kind string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		json.Unmarshal(in.Bytes(), &m)
		reply := func(format string, args ...any) {
			fmt.Printf(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+format+"}\n", args...)
		}
		switch m.Method {
		case "server/discover":
			if kind == "mute" {
				continue // knows nothing of it and says so to nobody
			}
			reply(`"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
		case "initialize":
			reply(`"result":{"protocolVersion":"2024-11-05","capabilities":{}}`)
		case "tools/call":
			switch kind {
			case "mute":
				reply(`"result":{"content":[]}`)
			case "family":
				// A grandchild that outlives it, and holds its output open.
				c := exec.Command("sleep", "600")
				c.Stdout, c.Stderr = os.Stdout, os.Stderr
				c.Start()
				reply(`"result":{"content":[{"type":"text","text":"%d %d"}]}`, os.Getpid(), c.Process.Pid)
			case "garbage":
				fmt.Println("Starting server on port 3000...")
			case "endless":
				for line := strings.Repeat("x", 1<<16); ; {
					if _, err := fmt.Print(line); err != nil {
						os.Exit(1)
					}
				}
			case "asker":
				for i := range 1000 {
					fmt.Printf(`{"jsonrpc":"2.0","id":"ask-%d","method":"sampling/createMessage","params":{}}`+"\n", i)
				}
				reply(`"result":{"content":[]}`)
			case "stranger":
				fmt.Println(`{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`)
				fmt.Println(`{"jsonrpc":"2.0","id":99999,"result":{"content":[]}}`)
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99999,"progress":1}}`)
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"hello"}}`)
				reply(`"result":{"content":[],"late":false}`)
				reply(`"result":{"content":[],"late":true}`)
			case "deaf":
				select {}
			}
		}
	}
}
