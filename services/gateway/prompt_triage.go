package gateway

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/triage"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// registerTriage adds the prompt that makes a work order of what is pending. It
// tells no alert: they are pending until an observe.
func (g *gateway) registerTriage(s *mcp.Server) {
	const description = "A work order for the pending alerts: what belongs together, most severe first, what to look at, how to verify, when to acknowledge."
	s.AddPrompt(&mcp.Prompt{Name: "triage", Title: "Triage pending alerts", Description: description},
		func(ctx context.Context, _ *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			ctx, cancel := g.underway(ctx)
			defer cancel()
			g.settle(ctx)
			g.forgetTold(ctx)
			var pending []alert.Alert
			if err := g.session.do(g.life, func(s *session, _ time.Time) { pending = s.inbox.Digest() }); err != nil {
				return nil, err
			}
			return &mcp.GetPromptResult{
				Description: description,
				Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: triage.Order(pending)}}},
			}, nil
		})
}
