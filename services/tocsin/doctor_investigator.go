package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// investigator checks whether the API of tocsin up's investigator can be used. Without a
// configuration there is none. What investigators report of themselves, also those elsewhere on the
// bus, is checked by [investigators].
func (d *doctor) investigator(ctx context.Context) []finding {
	if !d.running || d.runtime.InvestigatorURL == "" {
		return nil
	}
	status, why, err := d.ready(ctx, d.runtime.InvestigatorURL)
	switch {
	case err != nil:
		return []finding{failed("investigator", err.Error(), "restart tocsin up; if a gateway started it, its log is "+statedir.At(d.env.StateDir).Log())}
	case status != http.StatusOK:
		return []finding{failed("investigator", "not ready: "+reasonOf(why), "wait a moment; if it does not get ready, follow the reason, or restart tocsin up")}
	}
	return []finding{{check: "investigator", result: d.runtime.InvestigatorURL + " is ready"}}
}

// reasonOf returns the reason in the answer of an investigator that is not ready.
func reasonOf(answer string) string {
	var refusal struct {
		Error string `json:"error"`
	}
	switch {
	case json.Unmarshal([]byte(answer), &refusal) != nil || refusal.Error == "":
	case refusal.Error == http.StatusText(http.StatusServiceUnavailable): // it is bound beyond loopback
		answer = "it gives the reason only with the token; set TOCSIN_TOKEN and run this again"
	default:
		answer = refusal.Error
	}
	return sanitize.Visible(answer)
}

// maxNamedDown is how many models or MCP servers that are down the doctor names.
const maxNamedDown = 5

// investigators returns a finding for each investigator, and for what it can't use.
func investigators(all []query.Health) (out []finding) {
	for _, h := range all {
		i := h.Investigator
		if i == nil {
			continue
		}
		if !h.OK {
			out = append(out, failed("investigator", fmt.Sprintf("%s is unhealthy: %s", process(h), sanitize.Visible(h.Reason)), "follow the reason; its log has more"))
			continue
		}
		out = append(out, finding{check: "investigator", result: fmt.Sprintf("%s works; sessions on this bus: %d running, %d queued", process(h), i.Running, i.Queued)})
		if len(i.ModelsDown) > 0 {
			out = append(out, failed("investigator", fmt.Sprintf("%s: models that fail: %s", process(h), namedDown(i.ModelsDown)),
				"check the API key and the address of these entries of llm_providers, and the status of the provider; it keeps trying"))
		}
		if len(i.ServersDown) > 0 {
			out = append(out, failed("investigator", fmt.Sprintf("%s: MCP servers that can't be used: %s", process(h), namedDown(i.ServersDown)),
				"GET /api/v1/system/mcp-servers of the investigator has the reasons; it keeps trying, and investigates without them"))
		}
	}
	return out
}

func namedDown(names []string) string {
	var shown []string
	for _, name := range names[:min(len(names), maxNamedDown)] {
		shown = append(shown, sanitize.Visible(name))
	}
	if more := len(names) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, ", ")
}
