// Package resources decides which MCP resources there are, which alerts change them, and
// when a subscribed client is notified of that.
//
// It reads no resource, and knows no bus and no inbox: it is called with each new alert
// ([Updates.MarkChanged]), and asks for the lifecycle of one ([Config]).
package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// The URIs. Reading one neither takes alerts out of the inbox nor delivers them.
const (
	AlertsURI      = "tocsin://alerts"
	AlertURIPrefix = AlertsURI + "/" // and an id
	CIURI          = "tocsin://ci/latest"
)

const (
	// maxID is the longest id of an alert, in bytes.
	maxID = 64
	// maxURI is how much of a URI a refusal repeats, in characters.
	maxURI = 2048
)

// Kind is the kind of a resource.
type Kind int

// The kinds.
const (
	// KindAlerts is the newest alerts.
	KindAlerts Kind = iota
	// KindAlert is one alert, and what became of it.
	KindAlert
	// KindCI is the newest CI results.
	KindCI
)

// Resource is what a URI names.
type Resource struct {
	Kind Kind
	// ID is the alert's, of KindAlert.
	ID string
}

// Parse reads a URI from outside, and reports whether it has exactly one of the forms
// above.
func Parse(uri string) (r Resource, ok bool) {
	switch uri {
	case AlertsURI:
		return Resource{Kind: KindAlerts}, true
	case CIURI:
		return Resource{Kind: KindCI}, true
	}
	id, found := strings.CutPrefix(uri, AlertURIPrefix)
	return Resource{KindAlert, id}, found && isAlertID(id)
}

// isAlertID reports whether a text has the form of an alert's id.
func isAlertID(text string) bool {
	return text != "" && len(text) <= maxID && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// compareURIs orders updates: the lists before single alerts, which are in them.
func compareURIs(a, b string) int {
	if single := strings.HasPrefix(a, AlertURIPrefix); single != strings.HasPrefix(b, AlertURIPrefix) {
		if single {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// NotFound returns the SDK's error for a resource that does not exist. The SDK itself
// can't encode it for every URI that a client may send.
func NotFound(uri string) error {
	uri = sanitize.Cut(sanitize.Visible(uri), maxURI)
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return fmt.Errorf("encode the URI: %w", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: data}
}

// Failure returns the error for a client that can't have a resource.
func Failure(uri string, err error) error {
	if errors.Is(err, history.ErrNoSuchAlert) {
		return NotFound(uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: sanitize.Visible(err.Error())}
}
