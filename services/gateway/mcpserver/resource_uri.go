package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// The URIs of the resources. Reading one neither takes alerts out of the inbox nor
// delivers them.
const (
	alertsURI      = "tocsin://alerts"
	alertURIPrefix = alertsURI + "/" // followed by an id
	ciURI          = "tocsin://ci/latest"
)

const (
	// maxAlertID is the longest id of an alert, in bytes.
	maxAlertID = 64
	// maxShownURI is how much of a URI an error repeats, in characters.
	maxShownURI = 2048
)

// resourceKind is the kind of a resource.
type resourceKind int

const (
	// newestAlerts is the resource of the newest alerts.
	newestAlerts resourceKind = iota
	// singleAlert is the resource of one alert and its later history.
	singleAlert
	// latestCI is the resource of the newest CI results.
	latestCI
)

// resource is what a URI names.
type resource struct {
	kind resourceKind
	// alertID is set for singleAlert.
	alertID string
}

// parseResource reads a URI from outside, and reports whether it has exactly one of the
// forms above.
func parseResource(uri string) (r resource, ok bool) {
	switch uri {
	case alertsURI:
		return resource{kind: newestAlerts}, true
	case ciURI:
		return resource{kind: latestCI}, true
	}
	id, found := strings.CutPrefix(uri, alertURIPrefix)
	return resource{singleAlert, id}, found && isAlertID(id)
}

// isAlertID reports whether a text has the form of an alert's id.
func isAlertID(text string) bool {
	return text != "" && len(text) <= maxAlertID && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// compareURIs orders updates: lists before the single alerts in them.
func compareURIs(a, b string) int {
	if single := strings.HasPrefix(a, alertURIPrefix); single != strings.HasPrefix(b, alertURIPrefix) {
		if single {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// resourceNotFound returns the SDK's error for a resource that does not exist. The SDK
// itself can't encode it for every URI that a client may send.
func resourceNotFound(uri string) error {
	uri = sanitize.Cut(sanitize.Visible(uri), maxShownURI)
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return fmt.Errorf("encode the URI: %w", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: data}
}

// resourceError returns the error to send when a resource can't be read.
func resourceError(uri string, err error) error {
	if errors.Is(err, history.ErrNoSuchAlert) {
		return resourceNotFound(uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: sanitize.Visible(err.Error())}
}
