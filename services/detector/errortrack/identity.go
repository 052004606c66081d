package errortrack

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/stack"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// The versions of the rule that makes fingerprints. Snapshots of versions before 7 have
// fingerprints of the first alone.
const (
	// versionTemplate: the template of the message.
	versionTemplate = 1
	// versionStack is the fingerprint of the sender, or that of the app's own frames of the
	// stack, with the words where the frames are vague. Without either it is still the
	// template, of versionTemplate.
	versionStack = 2
)

// identity is what distinguishes an error from others.
type identity struct {
	fingerprint uint64
	version     uint8
	// by is what the fingerprint was made from.
	by string
	// trace is the parsed stack. It is good until the next error.
	trace stack.Trace
}

// The values of identity.by, which alerts show.
const (
	byExplicit = "fingerprint"
	byStack    = "stack"
	byMessage  = "message"
)

// The first bytes of what is hashed separate the fingerprints of senders, those of stacks,
// and templates, which have no such byte.
const (
	explicitMark = "\x00explicit\x00"
	stackMark    = "\x00stack\x00"
)

// identify identifies an error. words is the template of its message.
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

// byItself is identify for an error without a fingerprint of the sender.
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
	// A message with lines that look like frames is no trace if none has a place.
	if trace.Frames == 0 || l.Stack == "" && !trace.Placed {
		return identity{fingerprint: ofTemplate(words), version: versionTemplate, by: byMessage}
	}
	if trace.Vague() {
		e.key = append(e.key, 0)
		switch {
		case trace.Words != "" && strings.Contains(l.Message, trace.Words):
			// The message only adds who caught or logged the error.
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

// explicit returns the identity by the sender's fingerprint. A part of the form {{ default
// }}, as Sentry's senders have them, stands for the identity without it; so do the other
// variables, which would otherwise merge all errors for which they differ.
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

// hashed is part of a cryptographic hash, because it is all that is remembered of an error:
// two errors with the same one cannot be constructed.
func hashed(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:])
}
