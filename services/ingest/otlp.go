package ingest

import (
	"mime"
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// otlpBodies are in protobuf, as most of OpenTelemetry's senders write, or JSON.
var otlpBodies = bodyFormat{media: []string{typeProtobuf, typeJSON}, allowCompressed: true}

// decodeOTLP decodes an export request. The answer counts malformed items as a partial
// success, after which senders do not send them again.
func decodeOTLP(signal otlp.Signal) func(*http.Request, *body) (decodedEvents, error) {
	return func(_ *http.Request, b *body) (decodedEvents, error) {
		enc := otlpEncoding(b.media)
		in, err := otlp.Decode(signal, enc, b.data)
		if err != nil {
			return decodedEvents{}, err
		}
		answer := answerOTLP(httpserve.Answer{Status: http.StatusOK, Body: otlp.Answer(signal, enc, in)}, enc)
		return decodedEvents{events: in.Events, skipped: in.Rejected, answer: &answer}, nil
	}
}

func otlpEncoding(media string) otlp.Encoding {
	if media == typeProtobuf {
		return otlp.Protobuf
	}
	return otlp.JSON
}

// answerOTLP names the encoding of an answer, which is that of the request.
func answerOTLP(answer httpserve.Answer, enc otlp.Encoding) httpserve.Answer {
	if enc == otlp.Protobuf {
		return answer.With("Content-Type", typeProtobuf)
	}
	return answer
}

// refuseOTLP returns a refusal in OTLP's format: protobuf for a request in protobuf, else
// JSON.
func refuseOTLP(r *http.Request, refusal *httpserve.Refusal) httpserve.Answer {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	enc := otlpEncoding(media)
	return answerOTLP(refusal.Wrap(otlp.Status(enc, refusal.Status, refusal.Text())), enc)
}
