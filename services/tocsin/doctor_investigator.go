package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// investigator checks the investigator of tocsin up. Without a configuration there is none.
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
