package mcpevents

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The extension's codes (SEP-3415, Error Handling).
const (
	codeNotFound          = -32023
	codeResourceExhausted = -32025
	codeUnsupported       = -32026
)

// refusal returns a JSON-RPC error with typed data, on which clients branch.
func refusal(code int64, message string, data any) error {
	e := &jsonrpc.Error{Code: code, Message: message}
	if raw, err := json.Marshal(data); err == nil && data != nil {
		e.Data = raw
	}
	return e
}

func invalidParams(message string) error { return refusal(jsonrpc.CodeInvalidParams, message, nil) }

// internalError returns the error for a failure on our side.
func internalError(err error) error { return refusal(jsonrpc.CodeInternalError, err.Error(), nil) }

// The data of the errors.
type kindData struct {
	Kind string `json:"kind"`
}

type featureData struct {
	Feature string `json:"feature"`
	Value   string `json:"value"`
}

type limitData struct {
	Limit string `json:"limit"`
	Max   int    `json:"max"`
}

// unknownEvent refuses an unknown event type.
func unknownEvent() error {
	return refusal(codeNotFound, "there is no such event: events/list has the names", kindData{"event"})
}

// unsupportedDelivery refuses a delivery mode.
func unsupportedDelivery(mode, message string) error {
	return refusal(codeUnsupported, message, featureData{"deliveryMode", mode})
}
