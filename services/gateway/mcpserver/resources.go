package mcpserver

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// addResources adds the resources to a server.
func (s *server) addResources(m *mcp.Server) {
	const mime = "application/json"
	m.AddResource(&mcp.Resource{
		URI: alertsURI, Name: "alerts", Title: "Newest alerts", MIMEType: mime,
		Description: "The newest 50 alerts, delivered or not, newest first, and how many are pending. Reading delivers none of them: observe does.",
	}, s.readResource)
	m.AddResource(&mcp.Resource{
		URI: ciURI, Name: "ci-latest", Title: "Latest CI results", MIMEType: mime,
		Description: "The newest CI result of each pipeline and ref, newest first.",
	}, s.readResource)
	m.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: alertURIPrefix + "{id}", Name: "alert", Title: "One alert", MIMEType: mime,
		Description: "One alert by its id, with its later history: revisions, repetitions, resolution.",
	}, s.readResource)
}

// readResource answers resources/read.
func (s *server) readResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := r.Params.URI
	named, ok := parseResource(uri)
	if !ok {
		return nil, resourceNotFound(uri)
	}
	ctx, cancel := s.life.Call(ctx)
	defer cancel()
	s.alerts.WaitForPast(ctx)
	ctx, done := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer done()
	text, err := s.resourceText(ctx, named)
	if err != nil {
		return nil, resourceError(uri, err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}, nil
}

func (s *server) resourceText(ctx context.Context, r resource) (string, error) {
	switch r.kind {
	case newestAlerts:
		return s.readNewestAlerts(ctx)
	case latestCI:
		latest, err := s.history.LatestCI(ctx)
		if err != nil {
			return "", err
		}
		return history.Encode(struct {
			CI []history.LatestResult `json:"ci"`
		}{latest})
	default:
		lifecycle, err := s.history.Lifecycle(ctx, r.alertID)
		if err != nil {
			return "", err
		}
		return history.Encode(lifecycle)
	}
}

func (s *server) readNewestAlerts(ctx context.Context) (string, error) {
	newest, err := s.history.Newest(ctx)
	if err != nil {
		return "", err
	}
	list := struct {
		Alerts  []alert.Alert `json:"alerts"`
		Pending int           `json:"pending"`
	}{Alerts: newest}
	s.alerts.DiscardDelivered(ctx)
	if err := s.alerts.Do(func(state *delivery.State, _ time.Time) { list.Pending = state.Inbox.Len() }); err != nil {
		return "", err
	}
	return history.Encode(list)
}
