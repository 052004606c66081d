package fold

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/frustration"
	"github.com/tocsin-bus/tocsin/services/detector/network"
	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/security"
	"github.com/tocsin-bus/tocsin/services/detector/spike"
	"github.com/tocsin-bus/tocsin/services/detector/threshold"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// ruleEntry is a detection rule in the table.
type ruleEntry struct {
	// number is the field number of the rule's state in an app's snapshot. It is never
	// reused; 1 to 15 are reserved for fields that are not rules.
	number protowire.Number
	// new returns the rule for an app.
	new func(*rule.App) rule.Rule
	// untracked are the kinds of events that the rule also observes for apps that are not
	// tracked: a single event of such a kind is enough for a finding.
	untracked []telemetry.Kind
}

// table has the detection rules, in the order in which they observe an event. Incidents end
// in the reverse order: the end of a spike comes before those of the errors in it.
var table = []ruleEntry{
	{number: 16, new: errortrack.NewRule},
	{number: 17, new: network.NewRule, untracked: []telemetry.Kind{telemetry.KindNetwork}},
	{number: 18, new: spike.NewRule},
	{number: 19, new: regression.NewRule},
	{number: 20, new: frustration.NewRule},
	{number: 21, new: threshold.NewRule, untracked: []telemetry.Kind{telemetry.KindMemory, telemetry.KindCircuit}},
	{number: 22, new: security.NewRule, untracked: []telemetry.Kind{telemetry.KindSecurity}},
}

// indexOf returns the index of the rule with a number, or -1.
func indexOf(number protowire.Number) int {
	return slices.IndexFunc(table, func(e ruleEntry) bool { return e.number == number })
}
