package ingest

import (
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

// typeProtobuf is how most of OpenTelemetry's senders write.
const typeProtobuf = "application/x-protobuf"

// otlpRoutes are the paths that OpenTelemetry's senders find by themselves below
// OTEL_EXPORTER_OTLP_ENDPOINT. The pages of this machine may send there: the SDK
// for browsers does.
func (h *handler) otlpRoutes() []route {
	signal := func(path string, s otlp.Signal) route {
		return route{
			path: path, method: http.MethodPost, pages: true, phrase: phraseOTLP,
			serve: func(r *http.Request) reply { return h.otlp(r, s) },
		}
	}
	return []route{
		signal(pathOTLPLogs, otlp.Logs),
		signal(pathOTLPTraces, otlp.Traces),
		signal(pathOTLPMetrics, otlp.Metrics),
	}
}

// otlp takes an export request. What can't be what it claims to be is told as
// a partial success, and not to be sent again.
func (h *handler) otlp(r *http.Request, signal otlp.Signal) reply {
	d := dialect{media: []string{typeProtobuf, typeJSON}, packed: true}
	return h.takeEvents(r, d, func(media string, data []byte) (found, error) {
		enc := otlpEncoding(media)
		in, err := otlp.Decode(signal, enc, data)
		if err != nil {
			return found{}, err
		}
		answer := otlpReply(http.StatusOK, enc, otlp.Answer(signal, enc, in))
		return found{events: in.Events, leftOut: in.Rejected, answer: &answer}, nil
	})
}

func otlpEncoding(media string) otlp.Encoding {
	if media == typeProtobuf {
		return otlp.Protobuf
	}
	return otlp.JSON
}

// otlpReply is an answer in the encoding of the request.
func otlpReply(status int, enc otlp.Encoding, body []byte) reply {
	a := reply{status: status, body: body}
	if enc == otlp.Protobuf {
		a = a.with("Content-Type", typeProtobuf)
	}
	return a
}

// phraseOTLP says a refusal as OTLP has it. Whoever sent something else entirely
// can read JSON.
func phraseOTLP(r *http.Request, refused reply) reply {
	var said struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(refused.body, &said); err != nil {
		return refused // unreachable: all refusals are of that shape
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	enc := otlpEncoding(media)
	a := otlpReply(refused.status, enc, otlp.Status(enc, refused.status, said.Error))
	a.header = append(a.header, refused.header...)
	return a
}
