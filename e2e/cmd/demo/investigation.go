package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// failedCheckout is in the title of the alert that is investigated.
const failedCheckout = "/api/checkout"

// investigatingModel reads the shop's newest log lines, and concludes with quotes from them and from
// what Tocsin knows. It needs neither a key nor a network. The caller closes it.
func investigatingModel() (*modeltest.Server, error) {
	type evidence struct {
		Claim  string `json:"claim"`
		CallID string `json:"call_id"`
		Quote  string `json:"quote"`
	}
	concluded, err := json.Marshal(map[string]any{
		"cause":      "Since the deploy 4f2c1e9 the checkout reads the total of a cart that has none.",
		"confidence": conclusion.Proven,
		"evidence": []evidence{
			{"The deploy came before the failures", "call_1", "deploy 4f2c1e9 is live"},
			{"The checkout fails at the total", "call_1", "Cannot read properties of undefined (reading 'total')"},
			{"Its test fails for the same reason", "known-ci", "expected 42.00, got NaN"},
		},
		"next_steps":       []string{"Roll back to the release before 4f2c1e9"},
		"suggested_change": map[string]string{"file": "src/checkout.ts", "description": "Take 0 as the total of a cart that has none, as before the deploy."},
	})
	if err != nil {
		return nil, err
	}
	return modeltest.Serve(modeltest.Rule{Respond: func(r modeltest.Request) modeltest.Answer {
		switch {
		case len(r.Tools) == 0:
			return modeltest.Say("The checkout fails since the deploy 4f2c1e9, because it reads the total of a cart that has none. Payments are down; roll back.")
		case r.Last("tool").CallID == "":
			return modeltest.Use("call_1", "tocsin__events", `{"app":"shop","kinds":["log"],"limit":100}`)
		}
		return modeltest.Use("call_2", conclusion.ToolName, string(concluded))
	}}), nil
}

// investigator writes a configuration with one model, and returns the arguments for tocsin up.
func investigator(dir, url string) ([]string, error) {
	file := filepath.Join(dir, "investigator.yaml")
	text := fmt.Sprintf("llm_providers:\n  scripted: { type: openai, model: scripted, base_url: \"%s/v1\", api_key_env: \"\" }\ndefaults: { llm_provider: scripted }\n", url)
	return []string{"--investigator=" + file, "--investigator-addr=127.0.0.1:0"}, os.WriteFile(file, []byte(text), 0o600)
}

// investigate has the failed requests of the deploy investigated. The agent was given their alert
// before, and its next observe has the conclusion.
func (s *stage) investigate(ctx context.Context) error {
	s.chapter(ctx, "Second act: the failed checkout is investigated (by a scripted model, without a key)")
	var accepted struct {
		SessionID string `json:"session_id"`
	}
	if err := s.ask(ctx, http.MethodPost, "/api/v1/alerts", event{"alert_id": s.failed}, http.StatusAccepted, &accepted); err != nil {
		return err
	}
	path := "/api/v1/sessions/" + accepted.SessionID
	var outcome session.Outcome
	var err error
	ended := harness.Poll(ctx, patience, func() bool {
		err = s.ask(ctx, http.MethodGet, path+"/summary", nil, http.StatusOK, &outcome)
		return err != nil || outcome.Status == session.StatusCompleted || outcome.Status == session.StatusFailed
	})
	if err != nil {
		return err
	}
	var found conclusion.Conclusion
	if !ended || outcome.Status != session.StatusCompleted || json.Unmarshal(outcome.Conclusion, &found) != nil {
		return fmt.Errorf("%w: got the session %+v, want it completed with a conclusion", errStory, outcome)
	}
	if err := s.timeline(ctx, path); err != nil {
		return err
	}
	s.print("model", "concludes: "+string(found.Confidence)+". "+found.Cause)
	for _, e := range found.Evidence {
		s.print("", fmt.Sprintf("  | %q, found in %s: %t", e.Quote, e.CallID, e.Supported))
	}
	if err := s.pending(ctx, 1); err != nil {
		return err
	}
	alerts, err := s.observe(ctx, map[string]any{})
	if err != nil {
		return err
	}
	if len(alerts) != 1 || alerts[0].ID != s.failed || alerts[0].Investigation == nil || alerts[0].Investigation.Confidence != alert.Proven {
		return fmt.Errorf("%w: got %+v, want the end of the investigation of %s, proven", errStory, alerts, s.failed)
	}
	return nil
}

// timeline prints the tool calls of a session.
func (s *stage) timeline(ctx context.Context, path string) error {
	var timeline session.Events
	if err := s.ask(ctx, http.MethodGet, path+"/timeline", nil, http.StatusOK, &timeline); err != nil {
		return err
	}
	for _, e := range timeline.Events {
		if e.EventType != session.EventToolCall || e.Metadata["tool_name"] == conclusion.ToolName {
			continue
		}
		args, err := json.Marshal(e.Metadata["arguments"])
		if err != nil {
			return err
		}
		s.print("model", fmt.Sprintf("calls %v.%v %s", e.Metadata["server_name"], e.Metadata["tool_name"], args))
		s.print("", "  | "+short(e.Content, 200))
	}
	return nil
}

// ask sends a request to the investigator, and decodes its answer.
func (s *stage) ask(ctx context.Context, method, path string, body any, status int, into any) error {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, s.bus.InvestigatorURL+path, &sent)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	a, err := harness.Do(req)
	if err != nil {
		return err
	}
	if a.Status != status {
		return fmt.Errorf("%s %s: got status %d, want %d: %s", method, path, a.Status, status, a.Body)
	}
	return a.JSON(into)
}

// describeInvestigation formats what an alert has of its investigation.
func describeInvestigation(i *alert.Investigation) string {
	lines := []string{string(i.Confidence) + ": " + i.Summary}
	if c := i.SuggestedChange; c != nil {
		lines = append(lines, "proposal for "+c.File+": "+c.Description)
	}
	return strings.Join(lines, "\n  |           ")
}
