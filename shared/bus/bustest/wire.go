package bustest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Wire is a plain NATS connection that records what the server refused.
type Wire struct {
	*nats.Conn
	t       testing.TB
	refused chan error
}

// Dial opens a plain connection. It ends with the test.
func Dial(t testing.TB, url string, opts ...nats.Option) *Wire {
	t.Helper()
	w := &Wire{t: t, refused: make(chan error, 1000)}
	opts = append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { w.refused <- err }))
	var err error
	w.Conn, err = nats.Connect(url, opts...)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// refusalTimeout bounds the wait for the server's refusal.
const refusalTimeout = 5 * time.Second

// violation matches the error of a server that refuses a subject.
var violation = regexp.MustCompile(`(?i)permissions violation for \w+ to "([^"]+)"`)

// Refused makes a request that the server must refuse, and fails the test where it does not.
// The context of request ends at the refusal.
func (w *Wire) Refused(what string, request func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), refusalTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- request(ctx) }()
	select {
	case err := <-w.refused:
		if !violation.MatchString(err.Error()) {
			w.t.Errorf("%s: the server's error = %v, want a permissions violation", what, err)
		}
		cancel()
		if err := <-done; err == nil {
			w.t.Errorf("%s = nil, want an error after the server's refusal", what)
		}
	case <-ctx.Done():
		w.t.Errorf("%s = %v, want a permissions violation within %s", what, <-done, refusalTimeout)
	}
}

// refusedAll does something with each subject, which the server must refuse for each.
func (w *Wire) refusedAll(what string, subjects []string, do func(subject string) error) {
	w.t.Helper()
	waiting := map[string]int{}
	for _, subject := range subjects {
		waiting[subject]++
		if err := do(subject); err != nil {
			w.t.Errorf("%s %s: %v", what, subject, err)
		}
	}
	if err := w.Flush(); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	timeout := time.After(refusalTimeout)
	for range subjects {
		select {
		case err := <-w.refused:
			refused := violation.FindStringSubmatch(err.Error())
			if refused == nil || waiting[refused[1]] == 0 {
				w.t.Errorf("%s: the server's error = %v, want a permissions violation of one of %q", what, err, subjects)
				continue
			}
			if waiting[refused[1]]--; waiting[refused[1]] == 0 {
				delete(waiting, refused[1])
			}
		case <-timeout:
			w.t.Errorf("%s: no permissions violation within %s for %q", what, refusalTimeout, slices.Sorted(maps.Keys(waiting)))
			return
		}
	}
}

// MayNotPublish tries to publish to each of the subjects.
func (w *Wire) MayNotPublish(subjects ...string) {
	w.t.Helper()
	w.refusedAll("publish to", subjects, func(subject string) error { return w.Publish(subject, []byte(`{"seq":1}`)) })
}

// MayNotSubscribe tries to subscribe to each of the subjects, alone and in a queue group.
func (w *Wire) MayNotSubscribe(subjects ...string) {
	w.t.Helper()
	w.refusedAll("subscribe to", subjects, func(subject string) error { _, err := w.SubscribeSync(subject); return err })
	w.refusedAll("subscribe in a queue group to", subjects, func(subject string) error { _, err := w.QueueSubscribeSync(subject, "q"); return err })
}

// MayOnlyRead tries everything that a dashboard's credentials must not do: they can neither
// publish, nor create a consumer, nor read telemetry in any way.
func (w *Wire) MayOnlyRead() {
	w.t.Helper()
	subjects := []string{
		"telemetry.web.log", "intake.ci", "intake.alerts", "intake.noise", "ci.result.custom.abc.build.failure", "delivery.github.1",
		"alerts.web.ci.error", "live.alerts.web.ci.error", "notices.llm", "live.notices.llm",
		"investigation.01JD0000000000000000000000", "live.investigations.01JD0000000000000000000000", bus.SubjectInvestigateSubmit, bus.SubjectInvestigateGet,
		"query.events", "query.status", "query.noise", "query.vitals", "query.health", "query.partition.0.events", "$SRV.PING",
		"$KV.silences.silences", "$KV.gateways.me", "$KV.owners.0", "$O.detector.M.x", "_INBOX.another", "_INBOX_gateway.x",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.SERVER.REMOVE", "$SYS.REQ.SERVER.PING",
		"$JS.API.DIRECT.GET." + bus.StreamTelemetry + ".telemetry.web.log",
	}
	for _, stream := range []string{
		bus.StreamTelemetry, bus.StreamAlerts, bus.StreamCI, bus.StreamNotices, bus.StreamDeliveries,
		bus.StreamSilences, "KV_" + bus.BucketGateways, "KV_" + bus.BucketOwners, "OBJ_" + bus.BucketDetector,
		bus.StreamInvestigations, bus.StreamInvestigationTexts, bus.StreamInvestigationQueue, bus.StreamInvestigatorKeys,
	} {
		for _, call := range []string{
			"STREAM.CREATE.", "STREAM.UPDATE.", "STREAM.DELETE.", "STREAM.PURGE.", "STREAM.INFO.", "STREAM.SNAPSHOT.",
			"STREAM.MSG.DELETE.", "STREAM.MSG.GET.", "CONSUMER.NAMES.", "CONSUMER.LIST.", "CONSUMER.CREATE.",
		} {
			subjects = append(subjects, "$JS.API."+call+stream)
		}
		subjects = append(subjects,
			"$JS.API.CONSUMER.CREATE."+stream+".x", "$JS.API.CONSUMER.CREATE."+stream+".x.alerts.>",
			"$JS.API.CONSUMER.DURABLE.CREATE."+stream+".x", "$JS.API.CONSUMER.MSG.NEXT."+stream+".x",
		)
		if stream != bus.StreamAlerts {
			subjects = append(subjects, "$JS.API.DIRECT.GET."+stream)
		}
	}
	w.MayNotPublish(subjects...)
	w.MayNotSubscribe("telemetry.>", "telemetry.web.log", "alerts.>", "intake.>", "ci.>", "notices.>", "delivery.>", "query.>",
		"live.>", "live.*.>", "investigation.>", bus.AllLiveInvestigations, bus.AllInvestigate, "_INBOX_investigator.>", "_INBOX_detector.>", "_INBOX_gateway.>", "_INBOX_ingest.>", "_INBOX_provisioner.>", "$KV.>", "$O.>",
		">", "*.>", "$JS.>", "$SRV.>", "$SYS.>")

	js, err := jetstream.New(w.Conn)
	must(w.t, err)
	for _, stream := range []string{bus.StreamAlerts, bus.StreamTelemetry, bus.StreamNotices} {
		w.Refused("create a consumer on "+stream, func(ctx context.Context) error {
			_, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
			return err
		})
	}
}

// RepliesAreHarmless sends the requests that a dashboard may send, and has the answers sent to
// every subject where they could do harm: a server does not check whether the requester may
// publish there. witness, any of the services, checks that nothing has changed. seq is that
// of a stored alert; no other client may use the bus meanwhile.
func (w *Wire) RepliesAreHarmless(witness *bus.Session, seq uint64) {
	w.t.Helper()
	streams := []string{
		bus.StreamTelemetry, bus.StreamAlerts, bus.StreamCI, bus.StreamNotices, bus.StreamDeliveries,
		bus.StreamSilences, "KV_" + bus.BucketGateways, "KV_" + bus.BucketOwners, "OBJ_" + bus.BucketDetector,
		bus.StreamInvestigations, bus.StreamInvestigationTexts, bus.StreamInvestigationQueue, bus.StreamInvestigatorKeys,
	}
	state := func() string {
		w.t.Helper()
		var all string
		for _, name := range streams {
			ctx, cancel := context.WithTimeout(w.t.Context(), patience)
			s, err := witness.JS.Stream(ctx, name)
			cancel()
			if err != nil {
				w.t.Fatalf("stream %s: %v", name, err)
			}
			info := s.CachedInfo()
			all += fmt.Sprintf("%s created %s: %d stored, the last %d, %d consumers, %d subjects\n",
				name, info.Created, info.State.Msgs, info.State.LastSeq, info.State.Consumers, len(info.Config.Subjects))
		}
		return all
	}
	targets := []string{
		"telemetry.web.log", "intake.ci", "intake.alerts", "intake.noise", "ci.result.custom.abc.build.failure", "delivery.github.1",
		"alerts.web.ci.error", "notices.llm", "$KV.silences.silences", "$KV.silences.acks", "$KV.gateways.me", "$KV.owners.0",
		"$O.detector.M.x", "$O.detector.C.x",
	}
	for _, name := range streams {
		for _, call := range []string{"STREAM.PURGE.", "STREAM.DELETE.", "STREAM.UPDATE.", "STREAM.MSG.DELETE.", "CONSUMER.CREATE.", "STREAM.LEADER.STEPDOWN."} {
			targets = append(targets, "$JS.API."+call+name)
		}
	}
	before := state()
	for _, target := range targets {
		for _, ask := range []struct{ subject, payload string }{
			{"$JS.API.DIRECT.GET." + bus.StreamAlerts, fmt.Sprintf(`{"seq":%d}`, seq)},
			{"$JS.API.DIRECT.GET." + bus.StreamAlerts, fmt.Sprintf(`{"seq":%d,"batch":10}`, seq)},
			{"$JS.API.DIRECT.GET." + bus.StreamAlerts, `{"seq":1000000}`}, // an answer without content
			{"$JS.API.DIRECT.GET." + bus.StreamSilences + ".$KV." + bus.BucketSilences + "." + bus.KeySilences, ``},
		} {
			must(w.t, w.PublishRequest(ask.subject, target, []byte(ask.payload)))
		}
	}
	// Answers to its own requests come after those.
	ask := fmt.Appendf(nil, `{"seq":%d}`, seq)
	for range 3 {
		if m, err := w.Request("$JS.API.DIRECT.GET."+bus.StreamAlerts, ask, patience); err != nil || len(m.Data) == 0 {
			w.t.Fatalf("own request for alert %d = %v, %v, want the alert", seq, m, err)
		}
	}
	if after := state(); after != before {
		w.t.Errorf("the answers changed the streams, before\n%s\nafter\n%s", before, after)
	}
}
