package worker

import (
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// The bounds of a live stream.
const (
	// batchInterval is the time in which chunks are published together.
	batchInterval = 20 * time.Millisecond
	// maskShare is how many times longer than one masking the pause before the next one is, so
	// that masking takes at most a tenth of the time.
	maskShare = 10
	// maxLive is how much of a text is published live. The rest comes with the whole answer.
	maxLive = 64 << 10
	// maxOpenLine is how long the last line may become before its words are published.
	maxOpenLine = 512
	// heldBack is how much of such a line waits for more.
	heldBack = 256
	// startsPerCall numbers the starts of the text of one call of a model.
	startsPerCall = 1000
)

// Chunk is a part of an answer that is not stored, see [Journal.PublishChunks].
type Chunk struct {
	// Event is the id of the timeline event to which the chunk belongs.
	Event string `json:"timeline_event_id"`
	Delta string `json:"delta"`
	// Attempt rises when the answer starts over. Offset is the number of characters before
	// Delta in the same attempt.
	Attempt int `json:"attempt"`
	Offset  int `json:"offset"`
}

// stream publishes an answer while it grows, masked, in whole lines. Secrets stand within lines,
// or the mask recognizes the lines before them; a text whose published part the mask changes
// later starts over.
type stream struct {
	r   *run
	eff *effect
	ask *session.Ask

	mu             sync.Mutex
	attempt        int
	text, thinking liveText
	timer          *time.Timer
	closed         bool
}

// liveText is one of the two texts of an answer.
type liveText struct {
	event  string
	fact   session.Streaming
	raw    strings.Builder
	cut    int // bytes of raw that were published
	sent   string
	starts int           // how often the text started over
	stored chan struct{} // of the fact; nil until it is delivered
}

func (r *run) newStream(eff *effect, a *session.Ask) *stream {
	return &stream{
		r: r, eff: eff, ask: a,
		text:     liveText{event: session.ResponseEvent(a.ID), fact: session.Streaming{ID: a.ID}},
		thinking: liveText{event: session.ThinkingEvent(a.ID), fact: session.Streaming{ID: a.ID, Thinking: true}},
	}
}

// add takes a chunk of the answer.
func (s *stream) add(attempt int, c model.Chunk) {
	if c.Text == "" && c.Thinking == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if attempt != s.attempt {
		s.attempt = attempt
		s.text.restart()
		s.thinking.restart()
	}
	s.text.write(c.Text)
	s.thinking.write(c.Thinking)
	if s.timer == nil {
		s.timer = time.AfterFunc(batchInterval, s.flush)
	}
}

// close ends the stream. What was not published comes with the whole answer.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (t *liveText) restart() {
	t.raw.Reset()
	t.cut, t.sent = 0, ""
	t.starts++
}

func (t *liveText) write(part string) {
	if t.raw.Len() <= maxLive {
		t.raw.WriteString(part)
	}
}

// flush publishes what has come since the last time.
func (s *stream) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	if s.closed {
		return
	}
	begin := time.Now()
	var chunks []Chunk
	waiting := false
	for _, t := range []*liveText{&s.thinking, &s.text} {
		if t.raw.Len() == 0 {
			continue
		}
		if t.stored == nil {
			t.stored = make(chan struct{})
			fact := t.fact
			s.r.deliver(outcome{of: s.eff, facts: []session.Fact{{Time: now(), Streaming: &fact}}, stored: t.stored})
		}
		select {
		case <-t.stored: // the event is there before its chunks
		default:
			waiting = true
			continue
		}
		if c, ok := t.next(s.r.mask); ok {
			c.Attempt = (s.ask.Attempt-1)*startsPerCall + t.starts + 1
			chunks = append(chunks, c)
		}
	}
	if len(chunks) > 0 {
		if data, err := json.Marshal(chunks); err == nil {
			if err := s.r.cfg.Journal.PublishChunks(s.r.id, data); err != nil {
				s.r.log.Debug("chunks are not published", "error", err)
			}
		}
	}
	if waiting {
		s.timer = time.AfterFunc(batchInterval, s.flush)
		return
	}
	if pause := maskShare * time.Since(begin); pause > batchInterval {
		s.timer = time.AfterFunc(pause, s.flush)
	}
}

// next returns what can be published now.
func (t *liveText) next(mask func(string) string) (Chunk, bool) {
	raw := t.raw.String()
	if len(raw) > maxLive {
		return Chunk{}, false
	}
	end := strings.LastIndexByte(raw, '\n') + 1
	if len(raw)-end > maxOpenLine {
		if i := strings.LastIndexByte(raw[:len(raw)-heldBack], ' '); i > end {
			end = i
		}
	}
	if end <= t.cut {
		return Chunk{}, false
	}
	t.cut = end
	masked := mask(raw[:end])
	if !strings.HasPrefix(masked, t.sent) {
		t.sent = ""
		t.starts++
	}
	c := Chunk{Event: t.event, Delta: masked[len(t.sent):], Offset: utf8.RuneCountInString(t.sent)}
	t.sent = masked
	return c, c.Delta != ""
}
