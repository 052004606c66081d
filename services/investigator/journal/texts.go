package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Bounds of long texts.
const (
	// MaxText bounds one text, in bytes: twice the largest result of a tool.
	MaxText = 16 << 20
	// chunkSize is the size of a chunk.
	chunkSize = 256 << 10
	// textsUnderWay is how many chunks may wait for their acknowledgement.
	textsUnderWay = 8
	// readChunks is how many chunks one request reads.
	readChunks = 32
)

// headerChunks is the number of chunks of a text.
const headerChunks = "Tocsin-Chunks"

// TextStore stores long texts of sessions. It is safe for concurrent use.
type TextStore struct {
	j *Journal
	p *bus.Publisher
}

// Texts returns the store of long texts.
func (j *Journal) Texts() (*TextStore, error) {
	p, err := bus.NewPublisher(j.bus, textsUnderWay)
	if err != nil {
		return nil, fmt.Errorf("store texts: %w", err)
	}
	return &TextStore{j, p}, nil
}

// Digest returns the name of a text: the SHA-256 of it, in hex.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Put stores a text of a session and returns its digest. Storing it again changes nothing. A
// text that no message names in the end, because its append failed, is deleted with the
// session. The error wraps [ErrTooLarge], [ErrSession], [ErrFull], or is one of the bus.
func (s *TextStore) Put(ctx context.Context, session string, text []byte) (digest string, err error) {
	if err := CheckSession(session); err != nil {
		return "", fmt.Errorf("store a text: %w", err)
	}
	if len(text) > MaxText {
		return "", fmt.Errorf("store a text of %d bytes in session %s: %w: a text may have %d", len(text), session, ErrTooLarge, MaxText)
	}
	digest = Digest(text)
	chunks := max(1, (len(text)+chunkSize-1)/chunkSize)
	for first := 0; first < chunks; first += textsUnderWay {
		var batch []*nats.Msg
		for i := first; i < min(first+textsUnderWay, chunks); i++ {
			m := nats.NewMsg(bus.InvestigationTextSubject(session, digest, strconv.Itoa(i)))
			m.Header.Set(headerChunks, strconv.Itoa(chunks))
			m.Data = text[i*chunkSize : min((i+1)*chunkSize, len(text))]
			batch = append(batch, m)
		}
		if _, err := s.p.Publish(ctx, batch...); err != nil {
			if isFull(err) {
				err = fmt.Errorf("%w: %w", ErrFull, err)
			}
			return "", fmt.Errorf("store a text of session %s: %w", session, err)
		}
	}
	return digest, nil
}

// Get returns a text of a session. The error wraps [ErrMissing] where it or a part of it is
// not stored, [ErrDamaged] where it is another text, [ErrSession], or is one of the bus.
func (s *TextStore) Get(ctx context.Context, session, digest string) ([]byte, error) {
	if err := CheckSession(session); err != nil {
		return nil, fmt.Errorf("read a text: %w", err)
	}
	if !isDigest(digest) {
		return nil, fmt.Errorf("read text %.80q of session %s: %w: that is no digest", digest, session, ErrMissing)
	}
	pause := catchUpPause
	for {
		text, err := s.get(ctx, session, digest)
		if err == nil || pause > maxCatchUpPause || !isMissing(err) {
			return text, err
		}
		// The replica that answered may lack what was stored just now.
		if err := sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("read text %s of session %s: %w", digest, session, err)
		}
		pause *= 4
	}
}

func (s *TextStore) get(ctx context.Context, session, digest string) ([]byte, error) {
	subject := bus.InvestigationTextSubject(session, digest, "*")
	var chunks [][]byte
	missing := 1
	for from := uint64(1); ; {
		msgs, err := s.j.bus.ReadSubject(ctx, bus.StreamInvestigationTexts, subject, from, readChunks)
		if err != nil {
			return nil, fmt.Errorf("read text %s of session %s: %w", digest, session, err)
		}
		for _, m := range msgs {
			of, errOf := strconv.Atoi(m.Header.Get(headerChunks))
			i, errI := strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
			if errOf != nil || errI != nil || of < 1 || of > (MaxText+chunkSize-1)/chunkSize || i < 0 || i >= of || chunks != nil && of != len(chunks) {
				return nil, fmt.Errorf("read text %s of session %s: %w: chunk %s", digest, session, ErrDamaged, m.Subject)
			}
			if chunks == nil {
				chunks, missing = make([][]byte, of), of
			}
			if chunks[i] == nil {
				missing--
			}
			chunks[i] = append(m.Data, []byte{}...)
			if chunks[i] == nil { // the empty text
				chunks[i] = []byte{}
			}
			from = m.Seq + 1
		}
		if len(msgs) == 0 || msgs[len(msgs)-1].Pending == 0 {
			break
		}
	}
	if missing > 0 {
		return nil, fmt.Errorf("read text %s of session %s: %w: %d of %d chunks", digest, session, ErrMissing, missing, max(1, len(chunks)))
	}
	var text []byte
	for _, c := range chunks {
		text = append(text, c...)
	}
	if Digest(text) != digest {
		return nil, fmt.Errorf("read text %s of session %s: %w", digest, session, ErrDamaged)
	}
	return text, nil
}

func isDigest(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}
