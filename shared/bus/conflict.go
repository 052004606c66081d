package bus

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Conflict says that something was not written because somebody else had written
// it in between. A stream of several replicas says so by another code than one of a
// single one, and of the client's own errors each stands for some of the cases.
func Conflict(err error) bool {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return true
	case errors.As(err, &api):
		return api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant
	}
	return false
}
