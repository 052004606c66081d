package detector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// historyMessages is how far before the snapshot a start reads, to remember
// recent events that are folded in already. It is no more for one of several
// partitions: what is new waits behind it, also while one detector takes all of
// them over.
const historyMessages = 4096

// input is one message of TELEMETRY, decoded.
type input struct {
	message fold.Message
	// commandID names a noise command to whoever waits for its result.
	commandID string
	sender    string
	bytes     int
	// behind is how many messages come after it.
	behind uint64
	// damaged says that the message could not be decoded and holds nothing.
	damaged error
	// tick says that it only tells the time.
	tick bool
	// renewed is set on an input without a message: the stream was made anew.
	renewed time.Time
	// began is set on another one without a message: reading began, maybe anew.
	began bool
}

// feed reads TELEMETRY in order, decodes it and hands it to the loop. It is
// ahead of the loop by at most the capacity of inputs.
func (p *partition) feed(ctx context.Context, at position, inputs chan<- input) error {
	send := func(in input) {
		select {
		case inputs <- in:
		case <-ctx.Done(): // Follow sees the end itself
		}
	}
	start := uint64(1)
	if at.Telemetry+1 > historyMessages {
		start = at.Telemetry + 1 - historyMessages
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	err := bus.Follow(ctx, p.in, bus.FollowConfig{
		Stream: bus.StreamTelemetry, Subjects: bus.TelemetryOf(p.number, p.of), Start: start, Created: at.Created, Logger: p.log,
		Began: func(pending uint64) { send(input{began: true, behind: pending}) },
		Renewed: func(created time.Time) (uint64, time.Time) {
			looking, cancel := context.WithTimeout(ctx, prepareTimeout)
			defer cancel()
			if of, err := p.in.Partitions(looking); p.tenure != nil && (err != nil || of != p.of) {
				end(fmt.Errorf("%w: it may have other partitions", errRenewed))
				return 0, time.Time{}
			}
			send(input{renewed: created})
			return 0, time.Time{}
		},
	}, func(m bus.Message) error {
		send(decode(m))
		return nil
	})
	if cause := context.Cause(ctx); errors.Is(cause, errRenewed) {
		return cause
	}
	return err
}

// decode turns a message of the bus into what the fold understands.
func decode(m bus.Message) input {
	in := input{
		message: fold.Message{Seq: m.Seq, Time: m.Time},
		sender:  m.Header.Get(bus.HeaderSender),
		bytes:   len(m.Data), behind: m.Pending,
	}
	switch m.Subject {
	case bus.SubjectIntakeCI:
		result, err := ci.Decode(m.Data)
		if in.damaged = err; err == nil {
			in.message.CI = &result
		}
	case bus.SubjectIntakeAlerts:
		in.message.External, in.damaged = external.DecodeMessage(m.Data)
	case bus.SubjectIntakeNoise:
		var c noiseCommand
		if in.damaged = json.Unmarshal(m.Data, &c); in.damaged == nil {
			in.message.Noise, in.commandID = &c.NoiseRequest, c.ID
		}
	case bus.SubjectIntakeTick:
		in.tick = true
	default:
		if !strings.HasPrefix(m.Subject, "telemetry.") {
			in.damaged = fmt.Errorf("unknown subject %s", m.Subject)
			break
		}
		in.message.Events, in.damaged = telemetry.DecodeMessage(m.Data)
	}
	if in.damaged != nil {
		in.damaged = fmt.Errorf("decode message %d of %s: %w", m.Seq, m.Subject, in.damaged)
	}
	return in
}

// noiseCommand is a change of the noise rules, as it stands in the log.
type noiseCommand struct {
	ID string `json:"id"`
	query.NoiseRequest
}

// tickMessage tells the time by its arrival and nothing else.
func tickMessage() *nats.Msg { return &nats.Msg{Subject: bus.SubjectIntakeTick, Data: []byte("{}")} }
