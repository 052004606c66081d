package notifier

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// ClaudeChannelCapability is the experimental capability by which a server says that it
	// sends channel messages.
	ClaudeChannelCapability = "claude/channel"
	// ClaudeChannelMethod is the notification that carries one.
	ClaudeChannelMethod = "notifications/claude/channel"
)

// The client that takes channel messages, and since when.
const (
	client = "claude-code"
	since  = "v2.1.80"
)

// SupportsClaudeChannel says whether an MCP client of that name and version takes channel
// messages.
func SupportsClaudeChannel(name, version string) bool {
	return name == client && semver.Compare("v"+strings.TrimPrefix(version, "v"), since) >= 0
}

type channelMessage struct {
	Version string        `json:"jsonrpc"`
	Method  string        `json:"method"`
	Params  channelParams `json:"params"`
}

type channelParams struct {
	Content string `json:"content"`
	// Meta becomes attributes of the tag around the content.
	Meta map[string]string `json:"meta"`
}

// ClaudeChannelLine is the whole notification of alerts, as one line without a line feed. Its
// content is the block that observe has, in at most truncate.MaxText bytes. It holds
// no <, and so nothing that would end the element it is put into.
func ClaudeChannelLine(alerts []alert.Alert) ([]byte, error) {
	block, err := truncate.Block(alerts, 0, truncate.MaxText)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(channelMessage{Version: "2.0", Method: ClaudeChannelMethod, Params: channelParams{Content: block, Meta: meta(alerts)}}); err != nil {
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
