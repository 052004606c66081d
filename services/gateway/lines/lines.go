// Package lines reads a client's messages of JSON-RPC from its lines, one a line,
// as MCP has them on stdin.
//
// It decides which lines are messages, and answers the others itself. It knows
// nothing of their methods, nor of who answers them.
package lines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Max is the longest message of a client, in bytes. A longer one is refused and
// skipped.
const Max = 4 << 20

// Reader hands a client's lines on to the SDK, those that are messages of
// JSON-RPC. The others it answers itself, as the protocol says: to the SDK a
// line that it can't decode is the end of the session.
type Reader struct {
	in  *bufio.Reader
	out io.Writer
	// batches says whether the protocol that was agreed on knows batches.
	batches func() bool
	// rest is what is left of the present line.
	rest []byte
}

// New reads from in, and writes its own answers to out: each whole, with its
// newline, in one Write. batches says at each line whether the protocol that was
// agreed on knows batches.
func New(in io.Reader, out io.Writer, batches func() bool) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 64<<10), out: out, batches: batches}
}

// Read implements io.Reader.
func (l *Reader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		if refusal := l.check(line); refusal != nil {
			if err := l.answer(line, refusal); err != nil {
				return 0, err
			}
			continue
		}
		line = append(line, '\n')
		l.rest = line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next is the next line that is not blank, without the space around it. A line
// that is too long comes without its end.
func (l *Reader) next() ([]byte, error) {
	for {
		var line []byte
		for {
			part, err := l.in.ReadSlice('\n')
			if len(line) <= Max {
				line = append(line, part...)
			}
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if !errors.Is(err, io.EOF) || len(bytes.TrimSpace(line)) == 0 {
				return nil, err
			}
			break // the last line may lack its newline
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// check is nil, or says why a line is no message.
func (l *Reader) check(line []byte) *jsonrpc.Error {
	invalid := func(format string, args ...any) *jsonrpc.Error {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "invalid request: " + fmt.Sprintf(format, args...)}
	}
	if len(line) > Max {
		return invalid("a message must be at most %d bytes", Max)
	}
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "parse error: each line must be one JSON value"}
	}
	if line[0] != '[' {
		if _, err := jsonrpc.DecodeMessage(line); err != nil {
			return invalid("%v", err)
		}
		return nil
	}
	if !l.batches() {
		return invalid("batches are no part of the protocol since 2025-06-18")
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		return invalid("a batch must hold at least one message")
	}
	seen := map[jsonrpc.ID]bool{}
	for _, raw := range batch {
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			return invalid("in a batch: %v", err)
		}
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
			if seen[r.ID] {
				return invalid("two messages of a batch have the same id")
			}
			seen[r.ID] = true
		}
	}
	return nil
}

// answer refuses a line, under its id where it has one.
func (l *Reader) answer(line []byte, refusal *jsonrpc.Error) error {
	var message struct {
		ID json.RawMessage `json:"id"`
	}
	if len(line) > Max || json.Unmarshal(line, &message) != nil || !isID(message.ID) {
		message.ID = json.RawMessage("null")
	}
	text, err := json.Marshal(sanitize.Visible(refusal.Message))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(l.out, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", message.ID, refusal.Code, text)
	return err
}

func isID(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}
