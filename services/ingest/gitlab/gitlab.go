// Package gitlab decodes the webhooks of GitLab about CI: which deliveries are the outcome
// of a pipeline or a job, and which outcome it is.
//
// A job is named "stage / job", as in the failures of its pipeline. That is not the name
// under which tocsin ci posts from within the job: its report holds more than the webhook,
// which must not replace it. The package knows no HTTP, and not whether a delivery came
// before.
package gitlab

import (
	"fmt"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// The headers of a delivery.
const (
	HeaderEvent = "X-Gitlab-Event"
	HeaderToken = "X-Gitlab-Token" //nolint:gosec // the name of a header
	// HeaderKey is the same for all attempts of a delivery, since GitLab 17.4.
	// X-Gitlab-Event-UUID is not: webhooks that trigger each other share it.
	HeaderKey = "Idempotency-Key"
)

// maxParts is how many objects and lists a payload may hold. A pipeline has about six for
// each job, so a body is too large before that; a list of empty jobs takes 2 KB for each
// as structs of the library.
const maxParts = 20_000

// Decode reads the payload of an event. If it is no result, ignored is the reason. An
// error names what is wrong with the payload, or wraps decoding.ErrTooMany.
func Decode(event string, payload []byte) (result ci.Result, ignored string, err error) {
	kind := gitlab.EventType(event)
	switch kind {
	case "":
		return ci.Result{}, "", fmt.Errorf("%s is missing: it names the event, such as %s", HeaderEvent, gitlab.EventTypePipeline)
	case gitlab.EventTypePipeline, gitlab.EventTypeJob:
	default:
		return ci.Result{}, fmt.Sprintf("event %s: results are %s and %s", event, gitlab.EventTypePipeline, gitlab.EventTypeJob), nil
	}
	if err := decoding.CheckJSON(payload, maxParts); err != nil {
		return ci.Result{}, "", err
	}
	parsed, err := gitlab.ParseWebhook(kind, payload)
	if err != nil {
		return ci.Result{}, "", fmt.Errorf("the payload of %s: %w", event, decoding.JSONError(err))
	}
	switch e := parsed.(type) {
	case *gitlab.PipelineEvent:
		result, ignored, err = pipeline(e)
	case *gitlab.JobEvent:
		result, ignored, err = job(e)
	default:
		err = fmt.Errorf("%s: the payload is that of another event", event)
	}
	if err != nil || ignored != "" {
		return ci.Result{}, ignored, err
	}
	result.Source = ci.SourceGitLab
	return result, "", nil
}
