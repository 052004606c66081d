package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestObserveReportsMissingParts: where no detector answered for a part of the telemetry,
// the answer has a note, so that the agent does not mistake it for no events.
func TestObserveReportsMissingParts(t *testing.T) {
	r := newRig(t)
	detector := r.Join(t, bus.RoleDetector)
	part := query.Part{Unanswered: []int{2, 5}}
	for subject, reply := range map[string]any{
		query.SubjectEvents: query.EventsReply{Events: []query.StoredEvent{}, Part: part},
		query.SubjectNoise:  query.NoiseReply{Rules: []query.NoiseRule{}, Truncated: true, HiddenTotal: 7, Part: part},
		query.SubjectStatus: query.StatusReply{Apps: []query.AppStatus{}, Detector: query.DetectorStatus{Part: part}},
	} {
		data, err := json.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := detector.NC.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(data) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := detector.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	c := r.dial(t, "")
	c.initialize(t, "2025-11-25")
	const why = `"no detector answers for 2 partitions of telemetry: their apps are missing here; ask again in 5 s"`
	for what, want := range map[string]string{
		"errors": `{"what":"errors","errors":[],"incomplete":` + why + `}`,
		"noise":  `{"what":"noise","noise":[],"hidden_total":7,"incomplete":` + strings.TrimSuffix(why, `"`) + `; the detector has more rules than it can list: name an app"}`,
		"status": `"error":` + why,
	} {
		if got := c.call(t, "observe", `{"what":"`+what+`"}`); !strings.Contains(got.blocks[0], want) {
			t.Errorf("%s\nwant %s", got.blocks[0], want)
		}
	}
}
