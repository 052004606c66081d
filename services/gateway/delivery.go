package gateway

import (
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
)

// way is one by which alerts reach a client while it works. The stream decides
// which alerts, when, and how many at once; a way only carries. None has an
// acknowledgement, so none takes an alert out of the inbox.
type way string

const (
	// viaMessage is notifications/message, which clients log.
	viaMessage way = "message"
	// viaChannel is a message of a channel, which Claude Code shows to its model.
	viaChannel way = "channel"
	// viaEvents is the Events extension: requests that the client holds open.
	viaEvents way = "events"
)

func ways() []way { return []way{viaMessage, viaChannel, viaEvents} }

// line writes a notification as a way has it. A way that is no message of its
// own has no line.
func (w way) line(n notifier.Notification) ([]byte, error) {
	switch w {
	case viaMessage:
		return n.Line()
	case viaChannel:
		return notifier.ClaudeChannelLine(n.Alerts)
	case viaEvents:
	}
	return nil, nil
}

// peer is what a client said of itself that decides which ways it can take.
type peer struct {
	// name is that of the client, with its version.
	name string
	// unasked says that its protocol allows messages that nobody asked for.
	unasked bool
	// channel and events say that it takes those.
	channel, events bool
}

func peerOf(version string, client *mcp.Implementation, can *mcp.ClientCapabilities) peer {
	p := peer{unasked: version < version20260728}
	if client != nil {
		p.name = strings.TrimSpace(clientName(client) + " " + client.Version)
		p.channel = notifier.SupportsClaudeChannel(client.Name, client.Version)
	}
	if can != nil {
		_, announced := can.Experimental[notifier.ClaudeChannelCapability]
		p.channel = p.channel || announced
		_, p.events = can.Extensions[mcpevents.Extension]
	}
	return p
}

// takes says whether a way can reach the client at all.
func (p peer) takes(w way) bool { return w == viaEvents || p.unasked }

// usual are the ways that are used unless others are asked for: all that the
// client can take.
func (p peer) usual() []way {
	var usual []way
	for _, w := range ways() {
		if p.takes(w) && (w == viaMessage || w == viaChannel && p.channel || w == viaEvents && p.events) {
			usual = append(usual, w)
		}
	}
	return usual
}

// errNoUnasked says why a way can't be used, and what can.
var errNoUnasked = errors.New("via must be events: the protocol " + version20260728 + " forbids messages that nobody asked for, and message and channel are such")

// choose says which ways are used. Without a wish it is all that are usual.
func (p peer) choose(wish []way) ([]way, error) {
	if len(wish) == 0 {
		return p.usual(), nil
	}
	if !slices.ContainsFunc(wish, p.takes) {
		return nil, errNoUnasked
	}
	return slices.DeleteFunc(slices.Clone(wish), func(w way) bool { return !p.takes(w) }), nil
}

// plain says that nothing is worth a word: messages alone, as ever.
func plain(used []way) bool { return slices.Equal(used, []way{viaMessage}) }

// noteNoUnasked tells a client what works over its protocol.
const noteNoUnasked = "This protocol forbids messages that nobody asked for. What works: events/stream and events/poll (" + mcpevents.Extension +
	"), subscriptions/listen on tocsin://alerts, and observe with wait_seconds."

// noteNoChannel tells a client that asked for what it never said it takes.
const noteNoChannel = "This client did not say that it takes channel messages: it may show them to nobody. observe has the alerts all the same."

// note is what a client has to know of the ways in use, or empty.
func (p peer) note(used []way) string {
	switch {
	case !p.unasked:
		return noteNoUnasked
	case slices.Contains(used, viaChannel) && !p.channel:
		return noteNoChannel
	default:
		return ""
	}
}
