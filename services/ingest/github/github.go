// Package github decodes GitHub's webhooks about CI into CI results.
//
// The webhook's settings choose the events: workflow_run and workflow_job of GitHub Actions,
// check_run and check_suite of every app. Each completed run is a result with its own name;
// runs that were cancelled or skipped, or are not completed, are ignored. The package does
// not recognize repeated deliveries.
package github

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/go-github/v92/github"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// The headers of a delivery.
const (
	HeaderEvent     = github.EventTypeHeader
	HeaderDelivery  = github.DeliveryIDHeader
	HeaderSignature = github.SHA256SignatureHeader
	// HeaderSHA1 is the older signature, which is not trusted.
	HeaderSHA1 = github.SHA1SignatureHeader
)

// maxParts is how many objects and lists a payload may hold. It bounds memory: each can
// take 1 KB as a struct of the library. Real payloads have a few hundred.
const maxParts = 20_000

const completed = "completed"

// Decode reads the payload of an event. If the event is no result, ignored is the reason.
// Errors describe the mistake in the payload; they wrap [decoding.ErrTooMany] if it is too
// large.
func Decode(event string, payload []byte) (result ci.Result, ignored string, err error) {
	switch event {
	case "":
		return ci.Result{}, "", errors.New("X-GitHub-Event is missing: it names the event, such as workflow_run")
	case "ping":
		return ci.Result{}, "ping: the webhook is set up", nil
	case "workflow_run", "workflow_job", "check_run", "check_suite":
	default:
		return ci.Result{}, fmt.Sprintf("event %s: results are workflow_run, workflow_job, check_run and check_suite", event), nil
	}
	if err := decoding.CheckJSON(payload, maxParts); err != nil {
		return ci.Result{}, "", err
	}
	if action, err := actionOf(payload); err != nil {
		return ci.Result{}, "", fmt.Errorf("the payload of %s: %w", event, err)
	} else if action != completed {
		return ci.Result{}, fmt.Sprintf("%s %s: only %s has an outcome", event, action, completed), nil
	}
	parsed, err := github.ParseWebHook(event, payload)
	if err != nil {
		return ci.Result{}, "", fmt.Errorf("the payload of %s: %w", event, decoding.JSONError(err))
	}
	return decode(event, parsed)
}

// actionOf returns what happened to the run. Decode needs it before the library parses the
// payload: the library refuses some documented payloads, none of them of completed runs.
func actionOf(payload []byte) (string, error) {
	var e struct {
		Action string `json:"action"`
	}
	switch err := json.Unmarshal(payload, &e); {
	case err != nil:
		return "", decoding.JSONError(err)
	case e.Action == "":
		return "", errors.New("action is missing: results have " + completed)
	}
	return e.Action, nil
}

// decode returns the result of a completed run, or why it has none.
func decode(event string, parsed any) (ci.Result, string, error) {
	var conclusion string
	var present bool
	var result func() ci.Result
	switch e := parsed.(type) {
	case *github.WorkflowRunEvent:
		conclusion, present = e.GetWorkflowRun().GetConclusion(), e.WorkflowRun != nil
		result = func() ci.Result { return workflowRun(e) }
	case *github.WorkflowJobEvent:
		conclusion, present = e.GetWorkflowJob().GetConclusion(), e.WorkflowJob != nil
		result = func() ci.Result { return workflowJob(e) }
	case *github.CheckRunEvent:
		conclusion, present = e.GetCheckRun().GetConclusion(), e.CheckRun != nil
		result = func() ci.Result { return checkRun(e) }
	case *github.CheckSuiteEvent:
		conclusion, present = e.GetCheckSuite().GetConclusion(), e.CheckSuite != nil
		result = func() ci.Result { return checkSuite(e) }
	default:
		return ci.Result{}, "", fmt.Errorf("event %s: the payload is that of another event", event)
	}
	switch {
	case !present:
		return ci.Result{}, "", fmt.Errorf("%s is missing: it must be an object", event)
	case conclusion == "": // GitHub documents such a payload
		return ci.Result{}, event + " without a conclusion: neither success nor failure", nil
	}
	status := outcomes[conclusion].status
	if status == "" {
		return ci.Result{}, fmt.Sprintf("%s with conclusion %s: neither success nor failure", event, conclusion), nil
	}
	r := result()
	r.Status, r.Source = status, ci.SourceGitHub
	return r, "", nil
}

// outcomes are the conclusions that are results. The others (cancelled, skipped, stale,
// action_required) are ignored.
var outcomes = map[string]struct{ status, text string }{
	"success":         {ci.StatusSuccess, "passed"},
	"neutral":         {ci.StatusSuccess, "ended neutral"},
	"failure":         {ci.StatusFailure, "failed"},
	"timed_out":       {ci.StatusError, "timed out"},
	"startup_failure": {ci.StatusError, "did not start"},
}
