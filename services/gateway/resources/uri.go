// Package resources is what a client can subscribe to: which URIs there are, which
// alerts change what they name, and who is told.
//
// It decides when a client is told that a resource has changed, and how many it
// may be subscribed to. It reads none of them, and knows no bus and no inbox: it
// hears of each alert (Note), and asks for the story of one (Config).
package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// The URIs. Reading one neither takes alerts out of the inbox nor counts as having
// told them.
const (
	Alerts = "tocsin://alerts"
	Alert  = Alerts + "/" // and an id
	CI     = "tocsin://ci/latest"
)

const (
	// maxID is the longest id of an alert, in bytes.
	maxID = 64
	// maxURI is how much of a URI is said back, in characters.
	maxURI = 2048
)

// Kind is what kind of resource it is.
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

// Parse takes apart a URI that may come from anywhere. Only the exact forms
// are ours.
func Parse(uri string) (r Resource, ok bool) {
	switch uri {
	case Alerts:
		return Resource{Kind: KindAlerts}, true
	case CI:
		return Resource{Kind: KindCI}, true
	}
	id, found := strings.CutPrefix(uri, Alert)
	return Resource{KindAlert, id}, found && isAlertID(id)
}

// isAlertID says whether a text has the form of an alert's id.
func isAlertID(text string) bool {
	return text != "" && len(text) <= maxID && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// compare orders updates: the lists before single alerts, which are in them.
func compare(a, b string) int {
	if single := strings.HasPrefix(a, Alert); single != strings.HasPrefix(b, Alert) {
		if single {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// ErrNoSuchAlert says that the history has no alert of an id.
var ErrNoSuchAlert = errors.New("no such alert")

// NotFound is the SDK's error of a resource that is not there, which itself can't
// be written of every URI that a client may come up with.
func NotFound(uri string) error {
	uri = sanitize.Cut(sanitize.Visible(uri), maxURI)
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return fmt.Errorf("write the URI: %w", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: data}
}

// Failure is what a client is told that can't have a resource.
func Failure(uri string, err error) error {
	if errors.Is(err, ErrNoSuchAlert) {
		return NotFound(uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: sanitize.Visible(err.Error())}
}
