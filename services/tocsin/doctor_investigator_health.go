package main

import (
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

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
