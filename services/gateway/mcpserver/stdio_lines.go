package mcpserver

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

// maxMessage is the longest message of a client, in bytes. A longer one is refused.
const maxMessage = 4 << 20

// lineReader reads a client's JSON-RPC messages from stdin, one a line, and passes them to
// the SDK. It answers other lines itself with the errors that JSON-RPC defines: a line that
// the SDK can't decode would end the session.
type lineReader struct {
	in  *bufio.Reader
	out io.Writer
	// batches reports whether the negotiated protocol has batches.
	batches func() bool
	// rest is the unread part of the current line.
	rest []byte
}

// newLineReader reads from in and writes its answers to out, each with its newline in one
// Write. batches reports, for each line, whether the negotiated protocol has batches.
func newLineReader(in io.Reader, out io.Writer, batches func() bool) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), out: out, batches: batches}
}

// Read implements io.Reader.
func (l *lineReader) Read(p []byte) (int, error) {
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

// next returns the next line that is not blank, without the space around it. A line that is
// too long is cut.
func (l *lineReader) next() ([]byte, error) {
	for {
		var line []byte
		for {
			part, err := l.in.ReadSlice('\n')
			if len(line) <= maxMessage {
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

// check returns the error for a line that is no message, or nil.
func (l *lineReader) check(line []byte) *jsonrpc.Error {
	invalid := func(format string, args ...any) *jsonrpc.Error {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "invalid request: " + fmt.Sprintf(format, args...)}
	}
	if len(line) > maxMessage {
		return invalid("a message must be at most %d bytes", maxMessage)
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
		return invalid("the protocol has no batches since 2025-06-18")
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		return invalid("a batch must have at least one message")
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

// answer writes the error for a line, with the id of the line if it has one.
func (l *lineReader) answer(line []byte, refusal *jsonrpc.Error) error {
	var message struct {
		ID json.RawMessage `json:"id"`
	}
	if len(line) > maxMessage || json.Unmarshal(line, &message) != nil || !isID(message.ID) {
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
