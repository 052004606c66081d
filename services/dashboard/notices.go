package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
)

// Bounds of the number of notices, the messages of agents to their users.
const (
	defaultNotices = 50
	maxNotices     = 200
)

// notices answers with the messages of agents to their users, newest first.
func (h *handler) notices(r *http.Request) (any, error) {
	return h.countAction("notices", func() (any, error) {
		limit, err := numberParam(r, "limit", defaultNotices, 1, maxNotices)
		if err != nil {
			return nil, err
		}
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			list := []map[string]any{}
			cfg := bus.FollowConfig{Stream: bus.StreamNotices, Newest: limit, Logger: h.log}
			err := s.ReadToEnd(ctx, cfg, func(m bus.Message) error {
				if n := h.actions.decodeNotice(m); n != nil {
					list = append(list, n)
				}
				return nil
			})
			slices.Reverse(list)
			return map[string]any{"notices": list}, err
		})
	})
}

// decodeNotice decodes, masks and cleans a notice, and adds its sequence. It returns nil for
// a message that is not a notice.
func (a *actions) decodeNotice(m bus.Message) map[string]any {
	var n map[string]any
	if json.Unmarshal(m.Data, &n) != nil || n == nil {
		return nil
	}
	for name, value := range n {
		if text, ok := value.(string); ok {
			n[name] = a.mask.String(text)
		}
	}
	display.PageValue(n)
	n["seq"], n["received"] = m.Seq, m.Time.UTC().Format(time.RFC3339Nano)
	return n
}
