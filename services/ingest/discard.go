package ingest

import (
	"io"
	"net/http"
)

// drainLimit is how much of a refused body is read and thrown away, in bytes: most
// clients look for an answer only once they have sent everything, and find a broken
// connection instead where the server closes first. The time is that of the whole
// request, httpserve.ReadTimeout.
const drainLimit = 8 << 20

// drain reads what is left of the body of a refused request, up to drainLimit. A
// sender that waits for leave to send its body gets the answer at once, and so does one
// that announces more than is read.
func drain(r *http.Request) {
	if r.Header.Get("Expect") != "" || r.ContentLength > drainLimit {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainLimit) // it is refused either way
}
