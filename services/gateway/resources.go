package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/resources"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// newestListed is how many alerts tocsin://alerts has: the newest.
	newestListed = 50
	// maxFailures is how many failures tocsin://ci/latest has of one result, with
	// maxCIText characters of each text.
	maxFailures = 20
	maxCIText   = 500
)

// offerResources adds to the options of an MCP server what resources and prompts
// need.
func (g *gateway) offerResources(opts *mcp.ServerOptions) {
	opts.Capabilities.Resources = &mcp.ResourceCapabilities{Subscribe: true}
	opts.Capabilities.Prompts = &mcp.PromptCapabilities{}
	opts.SubscribeHandler, opts.UnsubscribeHandler = g.updates.Subscribe, g.updates.Unsubscribe
}

// registerResources adds the resources and the prompt to a server. It comes after
// all other middleware, which is then around nothing of the subscriptions.
func (g *gateway) registerResources(s *mcp.Server) {
	const mime = "application/json"
	s.AddResource(&mcp.Resource{
		URI: resources.Alerts, Name: "alerts", Title: "Newest alerts", MIMEType: mime,
		Description: "The newest 50 alerts, told or not, newest first, and how many are pending. Reading tells none of them: observe does.",
	}, g.serveResource)
	s.AddResource(&mcp.Resource{
		URI: resources.CI, Name: "ci-latest", Title: "Latest CI results", MIMEType: mime,
		Description: "The newest CI result of each pipeline and ref, newest first.",
	}, g.serveResource)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: resources.Alert + "{id}", Name: "alert", Title: "One alert", MIMEType: mime,
		Description: "One alert by its id, and what became of it: revised, repeated, resolved.",
	}, g.serveResource)
	g.registerTriage(s)
	g.updates.Serve(s, g.out)
	s.AddReceivingMiddleware(g.updates.Watch)
}

// serveResource answers resources/read.
func (g *gateway) serveResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := r.Params.URI
	which, ok := resources.Parse(uri)
	if !ok {
		return nil, resources.NotFound(uri)
	}
	ctx, cancel := g.underway(ctx)
	defer cancel()
	g.settle(ctx)
	ctx, done := context.WithTimeout(ctx, queryTimeout)
	defer done()
	text, err := g.readResource(ctx, which)
	if err != nil {
		return nil, resources.Failure(uri, err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}, nil
}

func (g *gateway) readResource(ctx context.Context, r resources.Resource) (string, error) {
	switch r.Kind {
	case resources.KindAlerts:
		return g.readAlerts(ctx)
	case resources.KindCI:
		latest, err := g.latestCI(ctx)
		if err != nil {
			return "", err
		}
		return encode(struct {
			CI []latestResult `json:"ci"`
		}{latest})
	default:
		s, err := g.find(ctx, r.ID)
		if err != nil {
			return "", err
		}
		return encode(s)
	}
}

func (g *gateway) readAlerts(ctx context.Context) (string, error) {
	first, last, err := g.extent(ctx, bus.StreamAlerts)
	if err != nil {
		return "", err
	}
	newest := []alert.Alert{} // [] and not null on the wire
	err = g.backwards(ctx, bus.StreamAlerts, first, last, newestListed, func(m bus.Message) bool {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) == nil && g.shows(a) { // else said when the inbox met it
			newest = append(newest, display.Alert(a, g.mask))
		}
		return len(newest) < newestListed
	})
	if err != nil {
		return "", err
	}
	list := struct {
		Alerts  []alert.Alert `json:"alerts"`
		Pending int           `json:"pending"`
	}{Alerts: newest}
	g.forgetTold(ctx)
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
	stored, err := g.newestResults(ctx, look{what: whatCI, since: maxSince * time.Second, limit: ci.Kept}.begin(time.Now()))
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
	shown := func(text string, limit int) string { return sanitize.Cut(sanitize.Visible(text), limit) }
	l := latestResult{storedResult: s, FailuresLeftOut: max(0, len(s.Failures)-maxFailures)}
	l.Ref, l.Commit, l.Name, l.URL = shown(s.Ref, maxCIText), shown(s.Commit, maxCIText), shown(s.Name, maxCIText), shown(s.URL, maxText)
	l.Summary = shown(s.Summary, alert.MaxDetail)
	l.Failures = nil
	for _, f := range s.Failures[:len(s.Failures)-l.FailuresLeftOut] {
		l.Failures = append(l.Failures, ci.Failure{Name: shown(f.Name, maxCIText), Message: shown(f.Message, maxCIText)})
	}
	return l
}
