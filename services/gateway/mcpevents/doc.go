// Package mcpevents is MCP's Events extension (io.modelcontextprotocol/events):
// alerts for a host that subscribes to them, by poll and by push. It is
// experimental, as the extension itself is (Beta).
//
// It decides what a subscription receives and from where (startPosition), how a poll
// is answered (poll) and what is sent on a stream, and when (push). It has no bus and
// no transport: a [Source] has the alerts, and [Config] the writer to the client. It
// never takes an alert out of the inbox, because it cannot know whether a model has
// seen one.
//
// # Decisions
//
// A cursor is a position in the stream of alerts. A poll returns every alert by
// itself. A push stream has a [notifier.Notifier]: duplicates, throttle and merging
// are as for notifications, and a batch is sent as several events in a row. Only the
// last event of a batch advances the cursor, so a client that loses the rest of a
// batch receives it again; it recognizes the events by their alerts' ids.
//
// Nothing is dropped for a client that reads slowly. The alerts wait on the bus, and
// truncated is set only when the bus itself has dropped some.
//
// # Sources of the rules
//
// The text is SEP-3415, "Events Extension", status Final. Only the head and the
// abstract of the final page could be read, and nothing of the repository ext-events,
// which has the specification now. The rules here are those of the proposal in its
// pull request (seps/0000-events-extension.md; all but a part of the webhook section
// could be read), which the final abstract repeats word for word:
//
//   - capability: extensions["io.modelcontextprotocol/events"], an object, empty
//     if event types don't change (Capability Negotiation). The top-level capability
//     "events" of the design sketch is not part of it.
//   - results carry resultType "complete"; an absent cursor is null, and null is
//     "from now" (Event Occurrences, Cursor Lifecycle).
//   - a cursor from which delivery is impossible is no error: delivery begins where it
//     can, with a fresh cursor and truncated true. On a stream, another
//     notifications/events/active reports it (Gaps and truncated).
//   - maxAgeMs moves the beginning forward, and is ignored without a cursor.
//   - notifications/events/active comes first; each notification has the id of its
//     events/stream in _meta; a heartbeat at least every 30 s has the position up to
//     which all alerts were processed (Push-Based Delivery).
//   - an empty result ends a stream, also one that the client has cancelled, which is
//     allowed on stdio.
//
// Two things may differ in the final text. The numbers of the error codes were
// provisional (-32023 to -32027; the design sketch before had -32011 to -32015). And
// the proposal defines the extension for protocol 2026-07-28 and later only; here it
// is served to every client that asks, which changes nothing for those that don't.
package mcpevents
