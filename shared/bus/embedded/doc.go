// Package embedded runs a NATS server with JetStream in this process: its store in a state
// directory, the accounts and keys of Tocsin's roles, the websocket for browsers, and
// the streams and buckets.
//
// One process does that for all of a machine (tocsin up). Every other process needs package
// bus alone, which does not link the server.
package embedded
