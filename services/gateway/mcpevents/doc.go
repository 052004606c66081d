// Package events is MCP's Events extension (io.modelcontextprotocol/events):
// alerts for a host that subscribes to them, by poll and by push. It is
// experimental, as the extension itself is (Beta).
//
// It decides what a subscription gets and from where (Position, begin), how a
// poll is answered (poll) and what goes out on a stream when (push). It knows
// no bus: a Source has the alerts. It knows no transport: a Notifier has the
// way to the client. It never takes an alert out of the inbox, because nothing
// here tells that a model has seen one.
//
// # What is decided here
//
// A cursor is a number in the stream of alerts and the time at which that stream
// was made. A poll returns every alert by itself. A push stream is a stream of
// package stream: duplicates, throttle and merging are as for notifications, and
// a batch goes out as several events in a row. The cursor passes a batch only
// with its last event, so who loses the rest of one gets it again; the events
// have the ids of their alerts, by which a client tells.
//
// Nothing is dropped for a client that reads slowly. The alerts wait on the bus,
// and truncated is told only when the bus itself has let some go.
//
// # Where the rules come from
//
// The text is SEP-3415, "Events Extension", status Final. Of the final page only
// the head and the abstract could be read, and of the repository ext-events,
// which has the specification now, nothing. The rules here are those of the
// proposal as it stood in its pull request (seps/0000-events-extension.md; all but
// a part of the webhook section could be read), which the final abstract repeats
// word for word:
//
//   - capability: extensions["io.modelcontextprotocol/events"], an object, empty
//     where event types don't change (Capability Negotiation). The top-level
//     capability "events" of the design sketch is no part of it.
//   - results carry resultType "complete"; an absent cursor is null, and null is
//     "from now" (Event Occurrences, Cursor Lifecycle).
//   - a cursor that can't be served from is no error: delivery begins where it
//     can, with a fresh cursor and truncated true. So it is on a stream, by
//     another notifications/events/active (Gaps and truncated).
//   - maxAgeMs moves the beginning forward, and is ignored without a cursor.
//   - notifications/events/active comes first; each notification has the id of
//     its events/stream in _meta; a heartbeat at least every 30 s has the place
//     up to which all was looked at (Push-Based Delivery).
//   - an empty result ends a stream, also one that the client has cancelled,
//     which is allowed on stdio.
//
// Two things may differ in the final text. The numbers of the error codes were
// provisional (-32023 to -32027; the design sketch before had -32011 to -32015).
// And the proposal defines the extension for protocol 2026-07-28 and later only;
// here it is served to every client that asks, which changes nothing for those
// that don't.
package mcpevents
