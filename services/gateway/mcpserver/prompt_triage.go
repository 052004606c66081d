package mcpserver

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/triage"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// addTriage adds the prompt that turns the pending alerts into a work order. It delivers
// none of them: they are pending until an observe.
func (s *server) addTriage(m *mcp.Server) {
	const description = "A work order for the pending alerts, most severe first: which belong together, what to check, how to verify a fix, when to acknowledge."
	m.AddPrompt(&mcp.Prompt{Name: "triage", Title: "Triage pending alerts", Description: description},
		func(ctx context.Context, _ *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			ctx, cancel := s.life.Call(ctx)
			defer cancel()
			s.alerts.WaitForPast(ctx)
			s.alerts.DiscardDelivered(ctx)
			var pending []alert.Alert
			if err := s.alerts.Do(func(state *delivery.State, _ time.Time) { pending = state.Inbox.Digest() }); err != nil {
				return nil, err
			}
			return &mcp.GetPromptResult{
				Description: description,
				Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: triage.Order(pending)}}},
			}, nil
		})
}
