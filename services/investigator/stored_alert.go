package investigator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// alertSearch bounds how long a stored alert is looked for.
const alertSearch = 5 * time.Second

// findAlert finds a stored alert by its id, in the newest form in which it was stored.
func findAlert(s *bus.Session, log *slog.Logger) alertFinder {
	return func(ctx context.Context, id string) (found alert.Alert, ok bool, err error) {
		ctx, cancel := context.WithTimeout(ctx, alertSearch)
		defer cancel()
		needle := []byte(id)
		quoted, err := json.Marshal(id)
		if err != nil {
			return alert.Alert{}, false, fmt.Errorf("look for an alert: %w", err)
		}
		if len(quoted) != len(id)+2 { // with escapes, which can be written in several ways
			needle = nil
		}
		err = s.ReadToEnd(ctx, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: log}, func(m bus.Message) error {
			var a alert.Alert
			if bytes.Contains(m.Data, needle) && json.Unmarshal(m.Data, &a) == nil && (a.ID == id || a.Revises == id) {
				found, ok = a.AsOriginal(), true
			}
			return nil
		})
		return found, ok, err
	}
}
