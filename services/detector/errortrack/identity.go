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
	// versionStack hashes the sender's fingerprint, or else the app's own frames in the
	// stack. If the frames alone do not identify the error, it also hashes the message. An
	// error without sender's fingerprint and frames has a fingerprint of versionTemplate.
	versionStack = 2
)

// identity is what distinguishes an error from others.
type identity struct {
	fingerprint uint64
	version     uint8
	// basis is what was hashed, as alerts show it.
	basis string
	// trace is the parsed stack. It is valid until the next error.
	trace stack.Trace
}

// The values of identity.basis.
const (
	basisSender  = "fingerprint"
	basisStack   = "stack"
	basisMessage = "message"
)

// A mark is the beginning of what is hashed. It keeps senders' fingerprints and stacks from
// having the hash of a template, which has no mark.
const (
	senderMark = "\x00explicit\x00"
	stackMark  = "\x00stack\x00"
)

// identify identifies an error by its sender's fingerprint, its stack or the template of
// its message.
func (e *Errors) identify(l *telemetry.Log, messageTemplate []byte) identity {
	if cap(e.stackKey) > maxBuffer || cap(e.senderKey) > maxBuffer { // a long stack or fingerprint came before
		e.stackKey, e.senderKey = nil, nil
	}
	id := e.identifyWithoutFingerprint(l, messageTemplate)
	if len(l.Fingerprint) > 0 {
		return e.identifyBySender(id, l.Fingerprint)
	}
	return id
}

// identifyWithoutFingerprint is identify for an error without a sender's fingerprint.
func (e *Errors) identifyWithoutFingerprint(l *telemetry.Log, messageTemplate []byte) identity {
	text, firstLine := l.Stack, ""
	if text == "" { // some loggers append the stack to the message
		line, _, multiline := strings.Cut(l.Message, "\n")
		if !multiline {
			return identifyByTemplate(messageTemplate)
		}
		text, firstLine = l.Message, line
	}
	var trace stack.Trace
	e.stackKey, trace = stack.Append(append(e.stackKey[:0], stackMark...), text, l.Message)
	// A message can have lines that look like frames. Without a source file it is no trace.
	if trace.Frames == 0 || l.Stack == "" && !trace.HasFile {
		return identifyByTemplate(messageTemplate)
	}
	if trace.Vague() {
		e.stackKey = append(e.stackKey, 0)
		switch {
		case trace.Headline != "" && strings.Contains(l.Message, trace.Headline):
			// The rest of the message is only about where the error was caught or logged.
		case firstLine != "": // the template of the message includes the stack
			e.stackKey = template.Append(e.stackKey, firstLine)
		default:
			e.stackKey = append(e.stackKey, messageTemplate...)
		}
		e.stackKey = template.Append(append(e.stackKey, 0), trace.Headline)
	}
	for _, cause := range trace.Causes {
		if cause != "" {
			e.stackKey = template.Append(append(e.stackKey, 1), cause)
		}
	}
	return identity{fingerprint: hashKey(e.stackKey), version: versionStack, basis: basisStack, trace: trace}
}

// identifyByTemplate identifies an error by the template of its message.
func identifyByTemplate(messageTemplate []byte) identity {
	return identity{fingerprint: templateFingerprint(messageTemplate), version: versionTemplate, basis: basisMessage}
}

// identifyBySender identifies an error by its sender's fingerprint. A part {{ default }}, as
// Sentry's SDKs send it, stands for fallback, the identity without the sender's fingerprint.
// So does any other variable: its value is not known, and without the fallback it would merge
// errors.
func (e *Errors) identifyBySender(fallback identity, parts telemetry.Fingerprint) identity {
	hasText := false
	e.senderKey = append(e.senderKey[:0], senderMark...)
	for _, part := range parts {
		if strings.HasPrefix(part, "{{") && strings.HasSuffix(part, "}}") {
			e.senderKey = binary.BigEndian.AppendUint64(append(e.senderKey, 1), fallback.fingerprint)
			continue
		}
		hasText = hasText || part != ""
		e.senderKey = binary.AppendUvarint(append(e.senderKey, 0), uint64(len(part)))
		e.senderKey = append(e.senderKey, part...)
	}
	if !hasText {
		return fallback
	}
	return identity{fingerprint: hashKey(e.senderKey), version: versionStack, basis: basisSender, trace: fallback.trace}
}

// templateFingerprint returns the fingerprint of versionTemplate.
func templateFingerprint(messageTemplate []byte) uint64 { return hashKey(messageTemplate) }

// hashKey returns the first 8 bytes of a cryptographic hash. Nothing else identifies an error,
// so it must be hard to construct two errors with one hash.
func hashKey(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:])
}
