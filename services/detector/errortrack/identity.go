package errortrack

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/stack"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// The versions of the rule that fingerprints are made by. Snapshots of versions of
// the detector before snapshot.Trust have fingerprints of the first alone.
const (
	// versionTemplate: the template of the message.
	versionTemplate = 1
	// versionStack: what the sender says, or the frames of the stack that are of the
	// app, with the words where these are vague. Where there is neither, it is the
	// template still, of versionTemplate.
	versionStack = 2
)

// identity is what an error is distinguished by.
type identity struct {
	fingerprint uint64
	version     uint8
	// by says from what the fingerprint was made.
	by string
	// trace is what the stack said, as long as no other error is identified.
	trace stack.Trace
}

// What a fingerprint was made from, as alerts say.
const (
	byExplicit = "fingerprint"
	byStack    = "stack"
	byMessage  = "message"
)

// The first bytes of what is hashed keep explicit fingerprints and those of stacks
// apart, and from templates, which have no such byte.
const (
	explicitMark = "\x00explicit\x00"
	stackMark    = "\x00stack\x00"
)

// identify makes out what an error is distinguished by. The words are the template of
// its message.
func (e *Errors) identify(l *telemetry.Log, words []byte) identity {
	if cap(e.key) > buffer || cap(e.said) > buffer { // left by an error with long names
		e.key, e.said = nil, nil
	}
	id := e.byItself(l, words)
	if len(l.Fingerprint) > 0 {
		return e.explicit(id, l.Fingerprint)
	}
	return id
}

// byItself is identify for an error of which the sender says nothing.
func (e *Errors) byItself(l *telemetry.Log, words []byte) identity {
	text, first := l.Stack, ""
	if text == "" { // some loggers write it behind the message
		line, _, several := strings.Cut(l.Message, "\n")
		if !several {
			return identity{fingerprint: ofTemplate(words), version: versionTemplate, by: byMessage}
		}
		text, first = l.Message, line
	}
	var trace stack.Trace
	e.key, trace = stack.Append(append(e.key[:0], stackMark...), text, l.Message)
	// A message with lines that read like frames is no trace if none says where it was.
	if trace.Frames == 0 || l.Stack == "" && !trace.Placed {
		return identity{fingerprint: ofTemplate(words), version: versionTemplate, by: byMessage}
	}
	if trace.Vague() {
		e.key = append(e.key, 0)
		switch {
		case trace.Words != "" && strings.Contains(l.Message, trace.Words):
			// The message says no more but by whom it was caught or logged.
		case first != "": // the template is of the stack, too
			e.key = template.Append(e.key, first)
		default:
			e.key = append(e.key, words...)
		}
		e.key = template.Append(append(e.key, 0), trace.Words)
	}
	for _, words := range trace.Causes {
		if words != "" {
			e.key = template.Append(append(e.key, 1), words)
		}
	}
	return identity{fingerprint: hashed(e.key), version: versionStack, by: byStack, trace: trace}
}

// explicit is what the sender says. A part of the form {{ default }}, as Sentry's
// senders have them, stands for what the error is by itself; so do the other
// variables, which would else make one of all errors for which they differ.
func (e *Errors) explicit(byItself identity, parts telemetry.Fingerprint) identity {
	said := false
	e.said = append(e.said[:0], explicitMark...)
	for _, part := range parts {
		if strings.HasPrefix(part, "{{") && strings.HasSuffix(part, "}}") {
			e.said = binary.BigEndian.AppendUint64(append(e.said, 1), byItself.fingerprint)
			continue
		}
		said = said || part != ""
		e.said = binary.AppendUvarint(append(e.said, 0), uint64(len(part)))
		e.said = append(e.said, part...)
	}
	if !said {
		return byItself
	}
	return identity{fingerprint: hashed(e.said), version: versionStack, by: byExplicit, trace: byItself.trace}
}

// ofTemplate is the fingerprint of version 1.
func ofTemplate(words []byte) uint64 { return hashed(words) }

// hashed is part of a cryptographic hash, because it is all that is remembered of
// an error: nobody can make one that passes for another.
func hashed(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:])
}
