package detector

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// historyMessages is how many messages before the snapshot's position are read again at
// the start, to fill the ring of recent events. One of several partitions reads as few:
// new messages wait behind them, also when one detector takes over all partitions.
const historyMessages = 4096

// input is one item for the loop: a decoded message of TELEMETRY, or a notice about the
// stream (recreated or started).
type input struct {
	message   fold.Message
	commandID string // id of a noise command, for the query that waits for its result
	sender    string
	bytes     int
	backlog   uint64 // messages after this one
	decodeErr error  // set if the message could not be decoded and is empty
	tick      bool   // the message only carries the time
	// recreated is set on a notice that the stream was recreated at this time.
	recreated time.Time
	// started is set on a notice that reading started or restarted.
	started bool
}

// readTelemetry reads TELEMETRY in order, decodes it and sends it to the loop. It reads
// ahead of the loop by at most the capacity of inputs.
func (p *partition) readTelemetry(ctx context.Context, from snapshotPosition, inputs chan<- input) error {
	send := func(in input) {
		select {
		case inputs <- in:
		case <-ctx.Done(): // Follow returns
		}
	}
	after := from.Telemetry - min(from.Telemetry, historyMessages)
	reading, end := context.WithCancelCause(ctx)
	defer end(nil)
	err := p.in.Follow(reading, bus.FollowConfig{
		Stream: bus.StreamTelemetry, Subjects: bus.TelemetryOf(p.number, p.total), Logger: p.log,
		After:   bus.Position{Seq: after, Created: from.Created},
		Started: func(pending uint64) { send(input{started: true, backlog: pending}) },
		Recreated: func(beginning bus.Position) {
			checking, cancel := context.WithTimeout(reading, prepareTimeout)
			defer cancel()
			if total, err := p.in.Partitions(checking); p.lease != nil && (err != nil || total != p.total) {
				end(fmt.Errorf("%w: its number of partitions may have changed", errStreamRecreated))
				return
			}
			send(input{recreated: beginning.Created})
		},
	}, func(m bus.Message) error {
		send(decode(m))
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// decode decodes a message of the bus for the fold.
func decode(m bus.Message) input {
	in := input{
		message: fold.Message{Seq: m.Seq, Time: m.Time},
		sender:  m.Header.Get(bus.HeaderSender),
		bytes:   len(m.Data), backlog: m.Pending,
	}
	switch m.Subject {
	case bus.SubjectIntakeCI:
		result, err := ci.Decode(m.Data)
		if in.decodeErr = err; err == nil {
			in.message.CI = &result
		}
	case bus.SubjectIntakeAlerts:
		in.message.External, in.decodeErr = external.DecodeMessage(m.Data)
	case bus.SubjectIntakeNoise:
		var c noiseCommand
		if in.decodeErr = json.Unmarshal(m.Data, &c); in.decodeErr == nil {
			in.message.Noise, in.commandID = &c.NoiseRequest, c.ID
		}
	case bus.SubjectIntakeTick:
		in.tick = true
	default:
		if !strings.HasPrefix(m.Subject, "telemetry.") {
			in.decodeErr = fmt.Errorf("unknown subject %s", m.Subject)
			break
		}
		in.message.Events, in.decodeErr = telemetry.DecodeMessage(m.Data)
	}
	if in.decodeErr != nil {
		in.decodeErr = fmt.Errorf("decode message %d of %s: %w", m.Seq, m.Subject, in.decodeErr)
	}
	return in
}

// noiseCommand is a change of the noise rules, as stored in TELEMETRY.
type noiseCommand struct {
	ID string `json:"id"`
	query.NoiseRequest
}
