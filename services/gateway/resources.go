package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/clean"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// The resources. Reading one neither takes alerts out of the inbox nor counts
// as having told them.
const (
	uriAlerts = "tocsin://alerts"
	uriAlert  = uriAlerts + "/" // and an id
	uriCI     = "tocsin://ci/latest"
)

const (
	// maxID is the longest id of an alert, in bytes.
	maxID = 64
	// newestListed is how many alerts tocsin://alerts has: the newest.
	newestListed = 50
	// maxFailures is how many failures tocsin://ci/latest has of one result, with
	// maxCIText characters of each text.
	maxFailures = 20
	maxCIText   = 500
)

type resourceKind int

const (
	resourceAlerts resourceKind = iota
	resourceAlert
	resourceCI
)

// resource is what a URI names.
type resource struct {
	kind resourceKind
	// id is the alert's, of resourceAlert.
	id string
}

// parseURI takes apart a URI that may come from anywhere. Only the exact forms
// are ours.
func parseURI(uri string) (r resource, ok bool) {
	switch uri {
	case uriAlerts:
		return resource{kind: resourceAlerts}, true
	case uriCI:
		return resource{kind: resourceCI}, true
	}
	id, found := strings.CutPrefix(uri, uriAlert)
	return resource{resourceAlert, id}, found && isAlertID(id)
}

// isAlertID says whether a text has the form of an alert's id.
func isAlertID(text string) bool {
	return text != "" && len(text) <= maxID && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// compareURIs orders updates: the lists before single alerts, which are in them.
func compareURIs(a, b string) int {
	if single := strings.HasPrefix(a, uriAlert); single != strings.HasPrefix(b, uriAlert) {
		if single {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// offerResources adds to the options of an MCP server what resources and prompts
// need.
func (g *gateway) offerResources(opts *mcp.ServerOptions) {
	opts.Capabilities.Resources = &mcp.ResourceCapabilities{Subscribe: true}
	opts.Capabilities.Prompts = &mcp.PromptCapabilities{}
	opts.SubscribeHandler, opts.UnsubscribeHandler = g.updates.subscribe, g.updates.unsubscribe
}

// registerResources adds the resources and the prompt to a server. It comes after
// all other middleware, which is then around nothing of the subscriptions.
func (g *gateway) registerResources(s *mcp.Server) {
	const mime = "application/json"
	s.AddResource(&mcp.Resource{
		URI: uriAlerts, Name: "alerts", Title: "Newest alerts", MIMEType: mime,
		Description: "The newest 50 alerts, told or not, newest first, and how many are pending. Reading tells none of them: observe does.",
	}, g.serveResource)
	s.AddResource(&mcp.Resource{
		URI: uriCI, Name: "ci-latest", Title: "Latest CI results", MIMEType: mime,
		Description: "The newest CI result of each pipeline and ref, newest first.",
	}, g.serveResource)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: uriAlert + "{id}", Name: "alert", Title: "One alert", MIMEType: mime,
		Description: "One alert by its id, and what became of it: revised, repeated, resolved.",
	}, g.serveResource)
	g.registerTriage(s)
	g.updates.serve(s, g.out)
	s.AddReceivingMiddleware(g.updates.watch)
}

// serveResource answers resources/read.
func (g *gateway) serveResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := r.Params.URI
	which, ok := parseURI(uri)
	if !ok {
		return nil, notFound(uri)
	}
	ctx, cancel := g.underway(ctx)
	defer cancel()
	g.settle(ctx)
	ctx, done := context.WithTimeout(ctx, queryTimeout)
	defer done()
	text, err := g.readResource(ctx, which)
	if err != nil {
		return nil, failure(uri, err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}, nil
}

// notFound is the SDK's error of a resource that is not there, which itself can't
// be written of every URI that a client may come up with.
func notFound(uri string) error {
	uri = untrusted.Cut(untrusted.Visible(uri), maxText)
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return fmt.Errorf("write the URI: %w", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: data}
}

// failure is what a client is told that can't have a resource.
func failure(uri string, err error) error {
	if errors.Is(err, errNoSuchAlert) {
		return notFound(uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: untrusted.Visible(err.Error())}
}

func (g *gateway) readResource(ctx context.Context, r resource) (string, error) {
	switch r.kind {
	case resourceAlerts:
		return g.readAlerts(ctx)
	case resourceCI:
		latest, err := g.latestCI(ctx)
		if err != nil {
			return "", err
		}
		return encode(struct {
			CI []latestResult `json:"ci"`
		}{latest})
	default:
		s, err := g.find(ctx, r.id)
		if err != nil {
			return "", err
		}
		return encode(s)
	}
}

func (g *gateway) readAlerts(ctx context.Context) (string, error) {
	first, last, err := g.extent(ctx)
	if err != nil {
		return "", err
	}
	newest := ring[alert.Alert]{limit: newestListed}
	err = g.stored(ctx, max(first, last-min(last, newestListed-1)), last, func(m bus.Message) {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) == nil { // else said when the inbox met it
			newest.add(clean.Alert(a, g.mask))
		}
	})
	if err != nil {
		return "", err
	}
	list := struct {
		Alerts  []alert.Alert `json:"alerts"`
		Pending int           `json:"pending"`
	}{Alerts: newest.newestFirst()}
	if err := g.session.do(g.life, func(s *session, _ time.Time) { list.Pending = s.inbox.Len() }); err != nil {
		return "", err
	}
	return encode(list)
}

// latestResult is a CI result as observe tells it, with bounded text.
type latestResult struct {
	storedResult
	// FailuresLeftOut is how many failures it has beyond maxFailures.
	FailuresLeftOut int `json:"failures_left_out,omitempty"`
}

// latestCI is the newest CI result of each pipeline and ref, newest first.
func (g *gateway) latestCI(ctx context.Context) ([]latestResult, error) {
	stored, err := g.newestResults(ctx, look{what: whatCI, since: maxSince * time.Second, limit: ci.Kept})
	latest := []latestResult{} // [] and not null on the wire
	seen := map[[3]string]bool{}
	for _, s := range stored {
		if key := [3]string{s.Source, s.Ref, s.Name}; !seen[key] {
			seen[key] = true
			latest = append(latest, bounded(s))
		}
	}
	return latest, err
}

// bounded cuts a result to what one can read, and makes its text visible.
func bounded(s storedResult) latestResult {
	shown := func(text string, limit int) string { return untrusted.Cut(untrusted.Visible(text), limit) }
	l := latestResult{storedResult: s, FailuresLeftOut: max(0, len(s.Failures)-maxFailures)}
	l.Ref, l.Commit, l.Name, l.URL = shown(s.Ref, maxCIText), shown(s.Commit, maxCIText), shown(s.Name, maxCIText), shown(s.URL, maxText)
	l.Summary = shown(s.Summary, alert.MaxDetail)
	l.Failures = nil
	for _, f := range s.Failures[:len(s.Failures)-l.FailuresLeftOut] {
		l.Failures = append(l.Failures, ci.Failure{Name: shown(f.Name, maxCIText), Message: shown(f.Message, maxCIText)})
	}
	return l
}
