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

// Claude Code's channels (2.1.80 and newer, a research preview) put a notification before
// the model, also before an idle one. A Claude Code that does not listen for channels
// ignores it. See https://code.claude.com/docs/en/channels-reference.
const (
	// ClaudeChannelCapability is the experimental capability with which a server declares
	// that it sends channel messages.
	ClaudeChannelCapability = "claude/channel"
	// ClaudeChannelMethod is the notification that carries a channel message.
	ClaudeChannelMethod = "notifications/claude/channel"
)

// The MCP client that supports channels, and its first version that does.
const (
	channelClient     = "claude-code"
	channelMinVersion = "v2.1.80"
)

// SupportsClaudeChannel reports whether an MCP client of that name and version supports
// channel messages.
func SupportsClaudeChannel(name, version string) bool {
	return name == channelClient && semver.Compare("v"+strings.TrimPrefix(version, "v"), channelMinVersion) >= 0
}

type channelMessage struct {
	Version string        `json:"jsonrpc"`
	Method  string        `json:"method"`
	Params  channelParams `json:"params"`
}

type channelParams struct {
	Content string `json:"content"`
	// Meta becomes the attributes of the tag around the content.
	Meta map[string]string `json:"meta"`
}

// ClaudeChannelLine returns the channel message of alerts as one line without a line feed.
// Its content is the block that observe returns, in at most [truncate.MaxText] bytes. It
// contains no <, so that it cannot close the tag around it.
func ClaudeChannelLine(alerts []alert.Alert) ([]byte, error) {
	block, err := truncate.Block(alerts, 0, truncate.MaxText)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	params := channelParams{Content: block, Meta: channelMeta(alerts)}
	if err := enc.Encode(channelMessage{Version: "2.0", Method: ClaudeChannelMethod, Params: params}); err != nil {
		return nil, fmt.Errorf("encode channel message: %w", err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// channelMeta describes one or more alerts. Keys match [A-Za-z0-9_]+;
// values are Tocsin's own words, numbers, or names reduced to tokens.
func channelMeta(alerts []alert.Alert) map[string]string {
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
