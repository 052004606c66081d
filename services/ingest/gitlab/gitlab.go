// Package gitlab decodes GitLab's webhooks about pipelines and jobs into CI results.
//
// A job is named "stage / job", as in the failures of its pipeline. tocsin ci, run within
// the job, uses another name: its result has more details, and the webhook must not replace
// it. The package does not recognize repeated deliveries.
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

// maxParts is how many objects and lists a payload may hold. It bounds memory: an empty job
// takes a few bytes in the body, and 2 KB as structs of the library. The largest body with
// real jobs, of about six objects each, stays below it.
const maxParts = 20_000

// Decode reads the payload of an event. If the event is no result, ignored is the reason.
// Errors describe the mistake in the payload; they wrap [decoding.ErrTooMany] if it is too
// large.
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
