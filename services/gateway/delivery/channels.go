package delivery

import (
	"errors"
	"slices"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
)

// Channel is a delivery channel: how notifications reach a client while it works. The
// notifier decides which alerts, when, and how many at once; a channel only carries
// them. None has an acknowledgement, so none takes an alert out of the inbox.
type Channel string

const (
	// ChannelMessage is notifications/message, which clients log.
	ChannelMessage Channel = "message"
	// ChannelClaude is a channel message, which Claude Code shows to its model.
	ChannelClaude Channel = "channel"
	// ChannelEvents is the Events extension of MCP: requests that the client holds open.
	ChannelEvents Channel = "events"
)

// Channels lists all channels.
func Channels() []Channel { return []Channel{ChannelMessage, ChannelClaude, ChannelEvents} }

// encode returns a notification for a channel. It is nil for a channel that sends no
// message of its own.
func (c Channel) encode(n notifier.Notification) ([]byte, error) {
	switch c {
	case ChannelMessage:
		return n.Line()
	case ChannelClaude:
		return notifier.ClaudeChannelLine(n.Alerts)
	case ChannelEvents:
	}
	return nil, nil
}

// Capabilities are what a client announced that decides which channels reach it.
type Capabilities struct {
	// Unsolicited reports whether its protocol allows messages that the client did
	// not request.
	Unsolicited bool
	// ClaudeChannel and Events report whether it supports those channels.
	ClaudeChannel, Events bool
}

// Allows reports whether a channel can reach the client at all.
func (caps Capabilities) Allows(c Channel) bool { return c == ChannelEvents || caps.Unsolicited }

// Default returns the channels to use if none are chosen: all that the client supports.
func (caps Capabilities) Default() []Channel {
	var channels []Channel
	for _, c := range Channels() {
		if caps.Allows(c) && (c == ChannelMessage || c == ChannelClaude && caps.ClaudeChannel || c == ChannelEvents && caps.Events) {
			channels = append(channels, c)
		}
	}
	return channels
}

// errOnlyEvents is returned if none of the chosen channels can be used.
var errOnlyEvents = errors.New("via must be events: the protocol 2026-07-28 forbids unsolicited messages, which message and channel send")

// Choose returns the chosen channels that can reach the client, or the default ones if none
// are chosen.
func (caps Capabilities) Choose(chosen []Channel) ([]Channel, error) {
	if len(chosen) == 0 {
		return caps.Default(), nil
	}
	if !slices.ContainsFunc(chosen, caps.Allows) {
		return nil, errOnlyEvents
	}
	return slices.DeleteFunc(slices.Clone(chosen), func(c Channel) bool { return !caps.Allows(c) }), nil
}
