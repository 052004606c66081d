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

// refusal is an error of JSON-RPC with typed data, which clients branch on.
func refusal(code int64, message string, data any) error {
	e := &jsonrpc.Error{Code: code, Message: message}
	if raw, err := json.Marshal(data); err == nil && data != nil {
		e.Data = raw
	}
	return e
}

func invalid(message string) error { return refusal(jsonrpc.CodeInvalidParams, message, nil) }

// internal tells what is wrong on our side.
func internal(err error) error { return refusal(jsonrpc.CodeInternalError, err.Error(), nil) }

type kind struct {
	Kind string `json:"kind"`
}

type feature struct {
	Feature string `json:"feature"`
	Value   string `json:"value"`
}

type limit struct {
	Limit string `json:"limit"`
	Max   int    `json:"max"`
}

// unknown refuses an event type that there is not.
func unknown() error {
	return refusal(codeNotFound, "there is no such event: events/list names those that there are", kind{"event"})
}

// unsupported refuses a way of delivery.
func unsupported(mode, message string) error {
	return refusal(codeUnsupported, message, feature{"deliveryMode", mode})
}
