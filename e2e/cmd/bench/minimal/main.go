// Command minimal is the comparison for the start of tocsin: a program that links
// nats.go, net/http and encoding/json, and only prints a line.
package main

import (
	"encoding/json"
	"net/http"
	"os"

	"github.com/nats-io/nats.go"
)

func main() {
	if len(os.Args) > 1 { // never true, but the linker keeps only reachable code
		if conn, err := nats.Connect(os.Args[1]); err == nil {
			conn.Close()
		}
		if resp, err := http.Get(os.Args[1]); err == nil { //nolint:noctx // it never runs
			_ = resp.Body.Close()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode("minimal"); err != nil {
		os.Exit(1)
	}
}
