// Package channel is the form in which alerts reach Claude Code as messages of a
// channel: a notification that it puts before its model by itself, also before
// an idle one. Where Claude Code does not listen for channels it is ignored.
//
// The form is that of Claude Code's channels reference (2.1.80 and newer, a
// research preview): https://code.claude.com/docs/en/channels-reference.
// The package decides how alerts are written, and nothing of when or which.
package claudechannel

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/tocsin-bus/tocsin/services/gateway/brief"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// Capability is the experimental capability by which a server says that it
	// sends channel messages.
	Capability = "claude/channel"
	// Method is the notification that carries one.
	Method = "notifications/claude/channel"
)

// The client that takes channel messages, and since when.
const (
	client = "claude-code"
	since  = "v2.1.80"
)

// Takes says whether an MCP client of that name and version takes channel
// messages.
func Takes(name, version string) bool {
	return name == client && semver.Compare("v"+strings.TrimPrefix(version, "v"), since) >= 0
}

type message struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  params `json:"params"`
}

type params struct {
	Content string `json:"content"`
	// Meta becomes attributes of the tag around the content.
	Meta map[string]string `json:"meta"`
}

// Line is the whole notification of alerts, as one line without a line feed. Its
// content is the block that observe has, in at most brief.MaxText bytes. It holds
// no <, and so nothing that would end the element it is put into.
func Line(alerts []alert.Alert) ([]byte, error) {
	block, err := brief.Block(alerts, 0, brief.MaxText)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(message{Version: "2.0", Method: Method, Params: params{Content: block, Meta: meta(alerts)}}); err != nil {
		return nil, fmt.Errorf("encode channel message: %w", err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// meta says of alerts, of which there is one at least, what a model or a rule may go by.
// Keys are [A-Za-z0-9_]+; values are words of ours, numbers, or names that are
// made such.
func meta(alerts []alert.Alert) map[string]string {
	first := alerts[0]
	m := map[string]string{
		"severity": string(alert.Highest(alerts)), "category": bus.Token(string(first.Category)), "app": bus.Token(first.App),
		"alerts": strconv.Itoa(len(alerts)),
	}
	for _, a := range alerts[1:] {
		if a.Category != first.Category {
			m["category"] = "batch"
		}
		if a.App != first.App {
			delete(m, "app")
		}
	}
	return m
}
