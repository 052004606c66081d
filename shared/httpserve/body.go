package httpserve

import (
	"fmt"
	"io"
	"net/http"
)

// ReadBody reads the body of a request, of at most limit bytes. Its error is a *Refusal.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case int64(len(data)) > limit:
		return nil, BodyTooLarge(limit, "")
	case err != nil:
		return nil, BodyBroken(err)
	}
	return data, nil
}

// BodyTooLarge refuses a body of more than limit bytes, and closes the connection. The
// hint, what to do, may be empty.
func BodyTooLarge(limit int64, hint string) *Refusal {
	message := fmt.Sprintf("the body is over %d bytes", limit)
	if hint != "" {
		message += ": " + hint
	}
	return Refuse(http.StatusRequestEntityTooLarge, message).With("Connection", "close")
}

// BodyBroken refuses a body that can't be read to its end, and closes the connection.
func BodyBroken(err error) *Refusal {
	return Refuse(http.StatusBadRequest, "the body broke off: "+err.Error()).With("Connection", "close")
}
