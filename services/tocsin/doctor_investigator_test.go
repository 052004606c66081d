package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestInvestigators expects a finding for each investigator, and for what it can't use.
func TestInvestigators(t *testing.T) {
	health := func(pid int, i query.InvestigatorHealth) query.Health {
		return query.Health{Service: "investigator", Host: "h", PID: pid, OK: true, Investigator: &i}
	}
	unhealthy := health(2, query.InvestigatorHealth{})
	unhealthy.OK, unhealthy.Reason = false, "the bus\x1b is unreachable"
	var many []string
	for n := range maxNamedDown + 2 {
		many = append(many, fmt.Sprint("s", n))
	}
	for _, tt := range []struct {
		name string
		all  []query.Health
		want string
	}{
		{"none", []query.Health{{Service: "detector", OK: true}}, ""},
		{"two", []query.Health{health(1, query.InvestigatorHealth{Queued: 3, Running: 2}), unhealthy},
			"ok pid 1 on h works; sessions on this bus: 2 running, 3 queued; FAIL pid 2 on h is unhealthy: the bus␛ is unreachable"},
		{"down", []query.Health{health(1, query.InvestigatorHealth{ModelsDown: []string{"claude", "a\u202eb"}, ServersDown: many})},
			"ok pid 1 on h works; sessions on this bus: 0 running, 0 queued; FAIL pid 1 on h: models that fail: claude, ab; " +
				"FAIL pid 1 on h: MCP servers that can't be used: s0, s1, s2, s3, s4, 2 more"},
	} {
		var got []string
		for _, f := range investigators(tt.all) {
			got = append(got, f.mark()+" "+f.result)
			if f.check != "investigator" {
				t.Errorf("%s: the check is %s, want investigator", tt.name, f.check)
			}
		}
		if got := strings.Join(got, "; "); got != tt.want {
			t.Errorf("%s: findings = %q, want %q", tt.name, got, tt.want)
		}
	}
}
