package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// The bounds of one answer. An answer that reaches one is cut there.
const (
	// MaxAnswerBytes bounds the text.
	MaxAnswerBytes = 4 << 20
	// MaxThinkingBytes bounds the thinking.
	MaxThinkingBytes = 4 << 20
	// MaxCalls bounds the tool calls. It is over the number that a session makes of one answer, so
	// that the model reads that the others were not made.
	MaxCalls = 128
	// MaxArgumentBytes bounds the arguments of one call. The answer is [Malformed] beyond it.
	MaxArgumentBytes = 256 << 10
	// maxCallID is the longest id of a call that all providers accept.
	maxCallID = 64
)

// Answer is a whole answer of a model.
type Answer struct {
	Text     string
	Thinking string
	Calls    []Call
	Stop     Stop
	Usage    Usage
	// FailedUsage is what the provider counted for the tries before this answer that failed.
	FailedUsage Usage
	// Estimated reports that Usage is an estimate, because the provider sent none.
	Estimated bool
	State     json.RawMessage
	// Cut reports that the client ended the stream, and CutReason why.
	Cut       bool
	CutReason string
	// Attempts is the number of requests, 1 or more.
	Attempts int
}

// Message returns the message that the answer becomes in the conversation.
func (a Answer) Message(provider string) Message {
	return Message{Role: RoleAssistant, Text: a.Text, Calls: a.Calls, State: a.State, Provider: provider}
}

// Empty reports whether the answer has neither a text nor a call.
func (a Answer) Empty() bool { return strings.TrimSpace(a.Text) == "" && len(a.Calls) == 0 }

// Client asks one provider and repeats failed requests. It may be used by several goroutines.
type Client struct {
	model    Model
	retry    Retry
	breaker  *Breaker
	longWait bool
}

// NewClient returns a client of a model. All clients of the same provider share its breaker.
func NewClient(m Model, retry Retry, breaker *Breaker) *Client {
	return &Client{model: m, retry: retry, breaker: breaker}
}

// WithLongWaits returns a client that waits for the trial of an open breaker, for the last provider
// of a chain. Without it an open breaker is an error.
func (c *Client) WithLongWaits() *Client {
	patient := *c
	patient.longWait = true
	return &patient
}

// Ask asks until an answer is complete, or a failure is final. It gives each chunk to onChunk
// with the attempt, from 0: an answer starts over when the attempt rises. The error is an
// [*Error], or wraps that of ctx. A wait that would last until after the deadline of ctx is not
// begun, and neither is one that is longer than Retry.MaxRetryAfter: see Error.Later. Where ctx ends,
// the answer has nothing but FailedUsage.
func (c *Client) Ask(ctx context.Context, r Request, onChunk func(attempt int, chunk Chunk)) (Answer, error) {
	failures := 0
	var spent Usage // by the tries that failed
	for attempt := 0; ; attempt++ {
		answer, failure := c.try(ctx, r, func(chunk Chunk) { onChunk(attempt, chunk) })
		if failure == nil {
			answer.Attempts, answer.FailedUsage = attempt+1, spent
			return answer, nil
		}
		spent = spent.Add(failure.Usage)
		if ctx.Err() != nil {
			return Answer{FailedUsage: spent}, fmt.Errorf("ask the model: %w", context.Cause(ctx))
		}
		if spent != failure.Usage {
			all := *failure
			all.Usage = spent
			failure = &all
		}
		wait, verdict := c.retry.Next(failures, failure, rand.Float64()) //nolint:gosec // it spreads load
		if errors.Is(failure, errOpen) {
			wait, verdict = failure.RetryAfter, Later
			attempt-- // there was no request
		}
		switch verdict {
		case GiveUp:
			return Answer{}, failure
		case Later:
			if !errors.Is(failure, errOpen) {
				return Answer{}, failure.later()
			}
			if !c.longWait {
				return Answer{}, failure
			}
		case Again:
			failures++
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			if failure.RetryAfter > 0 && !errors.Is(failure, errOpen) {
				return Answer{}, failure.later()
			}
			return Answer{}, failure
		}
		select {
		case <-ctx.Done():
			return Answer{FailedUsage: spent}, fmt.Errorf("wait to ask the model again: %w", context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// errOpen is the cause of a failure without a request.
var errOpen = errors.New("the breaker is open")

// try asks once.
func (c *Client) try(ctx context.Context, r Request, onChunk func(Chunk)) (answer Answer, failure *Error) {
	done, wait := c.breaker.Allow(time.Now())
	if done == nil {
		return Answer{}, &Error{
			Kind: Unavailable, RetryAfter: wait, Cause: errOpen,
			Message: fmt.Sprintf("not asked: %d requests in a row failed; the next trial is in %s", BreakerFailures, wait.Round(time.Second)),
		}
	}
	defer func() {
		switch {
		case failure == nil:
			done(time.Now(), nil)
		case ctx.Err() != nil:
			done(time.Now(), ctx.Err())
		default:
			done(time.Now(), failure)
		}
	}()
	asking, cancel := context.WithCancel(ctx) // ends before the deferred function above reads ctx
	defer cancel()
	g := gathering{request: r}
	for chunk, err := range c.model.Generate(asking, r) {
		if err != nil {
			return Answer{}, failureOf(err)
		}
		if chunk == (Chunk{}) {
			continue
		}
		if chunk.Call != nil {
			call := g.named(*chunk.Call)
			chunk.Call = &call
		}
		end := g.add(chunk)
		onChunk(chunk)
		if end {
			return g.finish(), nil
		}
	}
	return Answer{}, &Error{Kind: Cut, Message: "the stream ended before the answer did"}
}

// failureOf returns err as an [*Error].
func failureOf(err error) *Error {
	var failure *Error
	if errors.As(err, &failure) {
		return failure
	}
	return &Error{Kind: Unavailable, Message: "the request failed", Cause: err}
}

// gathering joins the chunks of an answer.
type gathering struct {
	request                    Request
	answer                     Answer
	text, thinking             strings.Builder
	textRepeats, thoughtRepeat Repetition
	ids                        map[string]bool
}

// add takes a chunk and reports whether the answer is at its end.
func (g *gathering) add(c Chunk) bool {
	switch {
	case c.Done != nil:
		g.answer.Stop, g.answer.Usage, g.answer.State = c.Done.Stop, c.Done.Usage, c.Done.State
		return true
	case c.Call != nil:
		if len(g.answer.Calls) == MaxCalls {
			return g.cut(fmt.Sprintf("the answer has over %d tool calls", MaxCalls))
		}
		g.answer.Calls = append(g.answer.Calls, *c.Call)
	case c.Text != "":
		g.text.WriteString(c.Text)
		if g.text.Len() >= MaxAnswerBytes {
			return g.cut(fmt.Sprintf("the text is over %d MiB", MaxAnswerBytes>>20))
		}
		if g.textRepeats.Add(c.Text) {
			return g.cut("the text repeats itself")
		}
	case c.Thinking != "":
		g.thinking.WriteString(c.Thinking)
		if g.thinking.Len() >= MaxThinkingBytes {
			return g.cut(fmt.Sprintf("the thinking is over %d MiB", MaxThinkingBytes>>20))
		}
		if g.thoughtRepeat.Add(c.Thinking) {
			return g.cut("the thinking repeats itself")
		}
	}
	return false
}

func (g *gathering) cut(reason string) bool {
	g.answer.Cut, g.answer.CutReason, g.answer.Stop = true, reason, StopLength
	return true
}

// finish returns the answer. Usage that the provider has not sent is estimated.
func (g *gathering) finish() Answer {
	a := g.answer
	a.Text, a.Thinking = cutText(g.text.String(), MaxAnswerBytes), cutText(g.thinking.String(), MaxThinkingBytes)
	if a.Usage.Input == 0 && a.Usage.Output == 0 {
		output := len(a.Text) + len(a.Thinking)
		for _, c := range a.Calls {
			output += len(c.Name) + len(c.Arguments)
		}
		a.Estimated = true
		a.Usage = Usage{Input: Estimate(g.request), Output: EstimateBytes(output), Thinking: EstimateBytes(len(a.Thinking))}
	}
	return a
}

// named returns a call with an id that is unique in the conversation and valid for all
// providers.
func (g *gathering) named(c Call) Call {
	if g.ids == nil {
		g.ids = map[string]bool{}
		for i := range g.request.Messages {
			for _, call := range g.request.Messages[i].Calls {
				g.ids[call.ID] = true
			}
		}
	}
	if !validID(c.ID) || g.ids[c.ID] {
		for n := len(g.ids) + 1; ; n++ {
			if c.ID = "call_" + strconv.Itoa(n); !g.ids[c.ID] {
				break
			}
		}
	}
	g.ids[c.ID] = true
	return c
}

func validID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxCallID
}

// cutText returns at most limit bytes, of whole characters.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
