// Package github decodes the webhooks of GitHub about CI: which deliveries are the outcome
// of a run, and which outcome it is.
//
// Several events report a run, as chosen in the webhook's settings: workflow_run and
// workflow_job of GitHub Actions, check_run and check_suite of every app. Each completed
// one is a result under its own name; those without an outcome (cancelled, skipped, not
// completed) are ignored. The package knows no HTTP, and not whether a delivery came
// before.
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

// maxParts is how many objects and lists a payload may hold. Real ones have a few hundred;
// a struct of the library takes up to 1 KB for each.
const maxParts = 20_000

const completed = "completed"

// Decode reads the payload of an event. If it is no result, ignored is the reason. An
// error names what is wrong with the payload, or wraps decoding.ErrTooMany.
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

// actionOf is what happened to the run. It is read first, because the library refuses some
// payloads that GitHub documents, none of them of completed runs.
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

// outcomes are the conclusions with an outcome; the others (cancelled, skipped, stale,
// action_required) have none.
var outcomes = map[string]struct{ status, text string }{
	"success":         {ci.StatusSuccess, "passed"},
	"neutral":         {ci.StatusSuccess, "ended neutral"},
	"failure":         {ci.StatusFailure, "failed"},
	"timed_out":       {ci.StatusError, "timed out"},
	"startup_failure": {ci.StatusError, "did not start"},
}
