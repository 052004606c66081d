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
// only fingerprints of versionTemplate.
const (
	// versionTemplate hashes the template of the message.
	versionTemplate = 1
	// versionStack hashes the sender's fingerprint, or else the app's own frames of the
	// stack, and also the message where the frames are too vague to tell errors apart. An
	// error with neither still has a fingerprint of versionTemplate.
	versionStack = 2
)

// identity is what distinguishes an error from others.
type identity struct {
	fingerprint uint64
	version     uint8
	// basis is what the fingerprint was made from.
	basis string
	// trace is the parsed stack. It is valid until the next error.
	trace stack.Trace
}

// The values of identity.basis, which alerts show.
const (
	basisSender  = "fingerprint"
	basisStack   = "stack"
	basisMessage = "message"
)

// The first bytes of what is hashed separate the fingerprints of senders, those of stacks,
// and templates, which have no such byte.
const (
	senderMark = "\x00explicit\x00"
	stackMark  = "\x00stack\x00"
)

// identify identifies an error by its sender's fingerprint, its stack or the template of
// its message.
func (e *Errors) identify(l *telemetry.Log, messageTemplate []byte) identity {
	if cap(e.stackKey) > maxBuffer || cap(e.senderKey) > maxBuffer { // left by an error with long names
		e.stackKey, e.senderKey = nil, nil
	}
	id := e.identifyWithoutFingerprint(l, messageTemplate)
	if len(l.Fingerprint) > 0 {
		return e.identifyBySender(id, l.Fingerprint)
	}
	return id
}

// identifyWithoutFingerprint is identify for an error without a sender's fingerprint. words
// is the template of its message.
func (e *Errors) identifyWithoutFingerprint(l *telemetry.Log, words []byte) identity {
	text, first := l.Stack, ""
	if text == "" { // some loggers write it behind the message
		line, _, multiline := strings.Cut(l.Message, "\n")
		if !multiline {
			return identity{fingerprint: templateFingerprint(words), version: versionTemplate, basis: basisMessage}
		}
		text, first = l.Message, line
	}
	var trace stack.Trace
	e.stackKey, trace = stack.Append(append(e.stackKey[:0], stackMark...), text, l.Message)
	// A message with lines that look like frames is no trace if none names a source line.
	if trace.Frames == 0 || l.Stack == "" && !trace.Placed {
		return identity{fingerprint: templateFingerprint(words), version: versionTemplate, basis: basisMessage}
	}
	if trace.Vague() {
		e.stackKey = append(e.stackKey, 0)
		switch {
		case trace.Words != "" && strings.Contains(l.Message, trace.Words):
			// The rest of the message is only about who caught or logged the error.
		case first != "": // the message's template includes the stack
			e.stackKey = template.Append(e.stackKey, first)
		default:
			e.stackKey = append(e.stackKey, words...)
		}
		e.stackKey = template.Append(append(e.stackKey, 0), trace.Words)
	}
	for _, cause := range trace.Causes {
		if cause != "" {
			e.stackKey = template.Append(append(e.stackKey, 1), cause)
		}
	}
	return identity{fingerprint: hashKey(e.stackKey), version: versionStack, basis: basisStack, trace: trace}
}

// identifyBySender returns the identity by the sender's fingerprint. A part {{ default }},
// as Sentry's SDKs send it, stands for fallback, the identity without the sender's
// fingerprint; so does any other variable, which would otherwise merge errors for which its
// value differs.
func (e *Errors) identifyBySender(fallback identity, parts telemetry.Fingerprint) identity {
	hasPart := false
	e.senderKey = append(e.senderKey[:0], senderMark...)
	for _, part := range parts {
		if strings.HasPrefix(part, "{{") && strings.HasSuffix(part, "}}") {
			e.senderKey = binary.BigEndian.AppendUint64(append(e.senderKey, 1), fallback.fingerprint)
			continue
		}
		hasPart = hasPart || part != ""
		e.senderKey = binary.AppendUvarint(append(e.senderKey, 0), uint64(len(part)))
		e.senderKey = append(e.senderKey, part...)
	}
	if !hasPart {
		return fallback
	}
	return identity{fingerprint: hashKey(e.senderKey), version: versionStack, basis: basisSender, trace: fallback.trace}
}

// templateFingerprint returns the fingerprint of versionTemplate.
func templateFingerprint(messageTemplate []byte) uint64 { return hashKey(messageTemplate) }

// hashKey returns the first 8 bytes of a cryptographic hash. It is all that is remembered
// of an error, so two errors with the same hash must not be easy to construct.
func hashKey(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:])
}
