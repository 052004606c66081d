package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/silence"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// maxBody is the largest body, in bytes.
	maxBody = 64 << 10
	// maxText is the default for the longest text of a query or a body, in bytes.
	maxText = 2048
	// createdBy is the author of silences and acknowledgements that are made on the page.
	createdBy = "the dashboard"
)

func (h *handler) health(r *http.Request) (any, error) {
	return h.countAction("health", func() (any, error) {
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			all, err := h.actions.collectHealth(ctx, s)
			if err != nil {
				return nil, err
			}
			data, err := json.Marshal(struct {
				Services []query.Health `json:"services"`
			}{all})
			if err != nil {
				return nil, err
			}
			return cleanJSON(data)
		})
	})
}

func (h *handler) status(r *http.Request) (any, error) {
	return h.countAction("status", func() (any, error) {
		return h.actions.askDetector(r.Context(), query.SubjectStatus, nil)
	})
}

func (h *handler) vitals(r *http.Request) (any, error) {
	return h.countAction("vitals", func() (any, error) {
		app, err := textParam(r, "app")
		if err != nil {
			return nil, err
		}
		page, err := textParam(r, "page")
		if err != nil {
			return nil, err
		}
		return h.actions.askDetector(r.Context(), query.SubjectVitals, query.VitalsRequest{App: app, Page: page})
	})
}

func (h *handler) events(r *http.Request) (any, error) {
	return h.countAction("events", func() (any, error) {
		request, err := parseEventsRequest(r)
		if err != nil {
			return nil, err
		}
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			data, err := bus.Ask(ctx, s, query.SubjectEvents, request)
			if err != nil {
				return nil, detectorError(err)
			}
			var reply query.EventsReply
			if err := json.Unmarshal(data, &reply); err != nil {
				return nil, fmt.Errorf("decode the detector's answer: %w", err)
			}
			// Masked again, because a detector of another version may have masked less.
			for i := range reply.Events {
				h.actions.mask.Event(&reply.Events[i].Event)
			}
			if data, err = json.Marshal(reply); err != nil {
				return nil, fmt.Errorf("encode the events: %w", err)
			}
			return cleanJSON(data)
		})
	})
}

// parseEventsRequest reads the query parameters of a request for events.
func parseEventsRequest(r *http.Request) (q query.EventsRequest, err error) {
	if q.App, err = textParam(r, "app"); err != nil {
		return q, err
	}
	for _, value := range r.URL.Query()["kind"] {
		for name := range strings.SplitSeq(value, ",") {
			kind := telemetry.Kind(strings.TrimSpace(name))
			if kind == "" {
				continue
			}
			if !slices.Contains(telemetry.Kinds(), kind) {
				return q, httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("kind must be one of %v", telemetry.Kinds()))
			}
			q.Kinds = append(q.Kinds, kind)
		}
		if len(q.Kinds) > len(telemetry.Kinds()) {
			return q, httpserve.Refuse(http.StatusBadRequest, "kind must be named once each")
		}
	}
	for name, field := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		value := r.URL.Query().Get(name)
		if value == "" {
			continue
		}
		if *field, err = time.Parse(time.RFC3339, value); err != nil {
			return q, httpserve.Refuse(http.StatusBadRequest, name+" must be a time such as 2026-01-28T14:30:00Z")
		}
	}
	q.Limit, err = numberParam(r, "limit", query.DefaultLimit, 1, query.MaxLimit)
	return q, err
}

func (h *handler) noise(r *http.Request) (any, error) {
	return h.countAction("noise", func() (any, error) {
		app, err := textParam(r, "app")
		if err != nil {
			return nil, err
		}
		return h.actions.askDetector(r.Context(), query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList, App: app})
	})
}

func (h *handler) changeNoise(r *http.Request) (any, error) {
	return h.countAction("noise change", func() (any, error) {
		var q query.NoiseRequest
		if err := decodeBody(r, &q); err != nil {
			return nil, err
		}
		switch q.Action {
		case query.NoiseAdd, query.NoiseRemove, query.NoiseAutoDetect:
		default:
			return nil, httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("action must be one of %s, %s, %s", query.NoiseAdd, query.NoiseRemove, query.NoiseAutoDetect))
		}
		for name, value := range map[string]string{"app": q.App, "pattern": q.Pattern, "rule_id": q.RuleID, "kind": string(q.Kind)} {
			if len(value) > maxText {
				return nil, httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("%s must be a text of at most %d bytes", name, maxText))
			}
		}
		return h.actions.askDetector(r.Context(), query.SubjectNoise, q)
	})
}

// silencesReply has the silences and acknowledgements, newest first.
type silencesReply struct {
	Silences silence.Silences `json:"silences"`
	Acks     silence.Acks     `json:"acks"`
}

func (h *handler) silences(r *http.Request) (any, error) {
	return h.countAction("silences", func() (any, error) {
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			set, err := h.actions.silences(s).List(ctx)
			if err != nil {
				return nil, err
			}
			reply := silencesReply{append(silence.Silences{}, set.Silences...), append(silence.Acks{}, set.Acks...)}
			slices.Reverse(reply.Silences)
			slices.Reverse(reply.Acks)
			return reply, nil
		})
	})
}

// silenceBody is the body of a request for a new silence.
type silenceBody struct {
	App      string `json:"app"`
	Category string `json:"category"`
	DedupKey string `json:"dedup_key"`
	// Minutes is the duration, [silence.DefaultDuration] if missing.
	Minutes *int   `json:"minutes"`
	Reason  string `json:"reason"`
}

// parse returns the matcher and the duration of the silence.
func (b silenceBody) parse() (matcher silence.Matcher, duration time.Duration, err error) {
	const least, most = int(silence.MinDuration / time.Minute), int(silence.MaxDuration / time.Minute)
	matcher = silence.Matcher{DedupKey: b.DedupKey, Category: alert.Category(b.Category), App: b.App}
	duration = silence.DefaultDuration
	if b.Minutes != nil {
		duration = time.Duration(*b.Minutes) * time.Minute
	}
	switch {
	case b.Category != "" && !slices.Contains(alert.Categories(), matcher.Category):
		err = fmt.Errorf("category must be one of %v", alert.Categories())
	case b.Minutes != nil && (*b.Minutes < least || *b.Minutes > most):
		err = fmt.Errorf("minutes must be between %d and %d", least, most)
	case len(b.Reason) > maxText:
		err = fmt.Errorf("reason must be a text of at most %d bytes", maxText)
	default:
		err = matcher.Validate()
	}
	if err != nil {
		err = httpserve.Refuse(http.StatusBadRequest, err.Error())
	}
	return matcher, duration, err
}

func (h *handler) silence(r *http.Request) (any, error) {
	return h.countAction("silence", func() (any, error) {
		var b silenceBody
		if err := decodeBody(r, &b); err != nil {
			return nil, err
		}
		matcher, duration, err := b.parse()
		if err != nil {
			return nil, err
		}
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			added, _, err := h.actions.silences(s).Silence(ctx, matcher, duration, b.Reason, createdBy)
			switch {
			case errors.Is(err, silence.ErrFull):
				return nil, httpserve.Refuse(http.StatusConflict, fmt.Sprintf("there are %d silences already, the maximum: end one", silence.MaxSilences))
			case errors.Is(err, silence.ErrTruncated):
				return nil, httpserve.Refuse(http.StatusBadRequest, err.Error())
			case err != nil:
				return nil, err
			}
			return struct {
				okReply
				Silence silence.Silence `json:"silence"`
			}{okReply{true}, added}, nil
		})
	})
}

func (h *handler) unsilence(r *http.Request) (any, error) {
	return h.countAction("unsilence", func() (any, error) {
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			_, err := h.actions.silences(s).Unsilence(ctx, r.PathValue("id"))
			return endReply(err, "no active silence has that id: GET "+pathSilences+" lists them")
		})
	})
}

func (h *handler) ack(r *http.Request) (any, error) {
	return h.countAction("ack", func() (any, error) {
		var b struct {
			AlertID string `json:"alert_id"`
		}
		if err := decodeBody(r, &b); err != nil {
			return nil, err
		}
		if b.AlertID == "" || len(b.AlertID) > maxText {
			return nil, httpserve.Refuse(http.StatusBadRequest, "alert_id must be the id of an alert")
		}
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			store := h.actions.silences(s)
			a, err := store.Alert(ctx, b.AlertID)
			switch {
			case errors.Is(err, silence.ErrNoAlert):
				return nil, httpserve.Refuse(http.StatusNotFound, err.Error())
			case errors.Is(err, silence.ErrEnded):
				return nil, httpserve.Refuse(http.StatusConflict, err.Error())
			case err != nil:
				return nil, err
			}
			k, _, err := store.Ack(ctx, a, createdBy)
			if err != nil {
				return nil, err
			}
			return struct {
				okReply
				Ack silence.Ack `json:"ack"`
			}{okReply{true}, k}, nil
		})
	})
}

func (h *handler) unack(r *http.Request) (any, error) {
	return h.countAction("unack", func() (any, error) {
		return h.actions.withSession(r.Context(), func(ctx context.Context, s *bus.Session) (any, error) {
			_, err := h.actions.silences(s).Unack(ctx, r.PathValue("id"))
			return endReply(err, "no active acknowledgement is of that alert: GET "+pathSilences+" lists them")
		})
	})
}

// endReply returns the answer to a request that ends a silence or an acknowledgement.
func endReply(err error, unknown string) (any, error) {
	switch {
	case errors.Is(err, silence.ErrUnknown):
		return nil, httpserve.Refuse(http.StatusNotFound, unknown)
	case err != nil:
		return nil, err
	}
	return okReply{true}, nil
}

// countAction calls do, and counts the action of a person by its result.
func (h *handler) countAction(action string, do func() (any, error)) (any, error) {
	value, err := do()
	result := "ok"
	if err != nil {
		result = "failed"
		if explain(err).Status < http.StatusInternalServerError {
			result = "refused"
		}
	}
	h.metrics.actions.WithLabelValues(action, result).Inc()
	return value, err
}

// textParam reads a query parameter.
func textParam(r *http.Request, name string) (string, error) {
	value := r.URL.Query().Get(name)
	if len(value) > maxText {
		return "", httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("%s must be a text of at most %d bytes", name, maxText))
	}
	return value, nil
}

// decodeBody decodes the body of a request, which is one JSON value.
func decodeBody(r *http.Request, into any) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return httpserve.Refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	data, err := httpserve.ReadBody(r, maxBody)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		var field *json.UnmarshalTypeError
		switch {
		case errors.As(err, &field) && field.Field != "":
			return httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("%s must not be a %s", field.Field, field.Value))
		case field != nil:
			return httpserve.Refuse(http.StatusBadRequest, "the body must be one JSON object")
		}
		return httpserve.Refuse(http.StatusBadRequest, "the body must be one JSON object: "+err.Error())
	}
	return nil
}
