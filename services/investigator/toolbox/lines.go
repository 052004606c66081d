package toolbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"unicode/utf8"
)

// maxForeign bounds what a server may write to its standard output beside JSON, in bytes. A
// server that writes more is broken off: it speaks no MCP.
const maxForeign = 64 << 10

var (
	errTooLarge = fmt.Errorf("a message of the server is over %d MiB", MaxMessage>>20)
	errForeign  = errors.New("the server writes something else than JSON messages to its standard output")
)

// lineReader passes on the lines that are JSON objects or lists, and leaves out others: many
// programs greet on standard output. It never holds more than MaxMessage bytes.
type lineReader struct {
	source  *bufio.Reader
	closer  io.Closer
	pending []byte
	line    []byte
	foreign int
	err     error
	// failure is what the reader ended with by itself: errTooLarge or errForeign.
	failure atomic.Pointer[error]
}

func newLineReader(source io.ReadCloser) *lineReader {
	return &lineReader{source: bufio.NewReaderSize(source, 64<<10), closer: source}
}

// Read implements io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.pending) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.next()
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *lineReader) Close() error { return r.closer.Close() }

func (r *lineReader) fail(err error) {
	r.err = err
	r.failure.Store(&err)
}

// next reads one line and makes it pending if it is a message.
func (r *lineReader) next() {
	if cap(r.line) > 1<<20 { // a large result should not stay in memory
		r.line = nil
	}
	r.line = r.line[:0]
	for {
		part, err := r.source.ReadSlice('\n')
		if len(r.line)+len(part) > MaxMessage {
			r.fail(errTooLarge)
			return
		}
		r.line = append(r.line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		r.err = err
		break
	}
	line := bytes.TrimSpace(r.line)
	if len(line) == 0 {
		return
	}
	if (line[0] != '{' && line[0] != '[') || !json.Valid(line) {
		if r.foreign += len(line); r.foreign > maxForeign {
			r.fail(errForeign)
		}
		return
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte(string(utf8.RuneError)))
	}
	line = append(line, '\n')
	r.pending = line
}
