package mcpserver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
)

// peer is what a client announced about itself.
type peer struct {
	// name is the client's name and version.
	name string
	delivery.Capabilities
}

func newPeer(version string, client *mcp.Implementation, can *mcp.ClientCapabilities) peer {
	p := peer{Capabilities: delivery.Capabilities{Unsolicited: version < version20260728}}
	if client != nil {
		p.name = strings.TrimSpace(clientName(client) + " " + client.Version)
		p.ClaudeChannel = notifier.SupportsClaudeChannel(client.Name, client.Version)
	}
	if can != nil {
		_, announced := can.Experimental[notifier.ClaudeChannelCapability]
		p.ClaudeChannel = p.ClaudeChannel || announced
		_, p.Events = can.Extensions[mcpevents.Extension]
	}
	return p
}

// clientName returns the name that a client announces.
func clientName(client *mcp.Implementation) string {
	if client == nil {
		return "unknown"
	}
	return cmp.Or(client.Name, "unknown")
}

// noteUnsolicited lists what works over the client's protocol.
const noteUnsolicited = "This protocol forbids unsolicited messages. What works: events/stream and events/poll (" + mcpevents.Extension +
	"), subscriptions/listen on tocsin://alerts, and observe with wait_seconds."

// noteNoClaudeChannel is for a client that chose a channel that it never announced.
const noteNoClaudeChannel = "This client did not announce that it takes channel messages: it may not show them. observe has the alerts all the same."

// note returns a hint for the client about the delivery channels in use, or "".
func (p peer) note(used []delivery.Channel) string {
	switch {
	case !p.Unsolicited:
		return noteUnsolicited
	case slices.Contains(used, delivery.ChannelClaude) && !p.ClaudeChannel:
		return noteNoClaudeChannel
	default:
		return ""
	}
}
