package github

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/google/go-github/v92/github"

	"github.com/tocsin-bus/tocsin/shared/ci"
)

func workflowRun(e *github.WorkflowRunEvent) ci.Result {
	run := e.GetWorkflowRun()
	name := cmp.Or(e.GetWorkflow().GetName(), run.GetName(), run.GetPath())
	var s strings.Builder
	fmt.Fprintf(&s, "%s #%d %s", name, run.GetRunNumber(), outcomeText(run.GetConclusion()))
	if run.GetEvent() != "" {
		s.WriteString(" on " + run.GetEvent())
	}
	writeAttempt(&s, run.GetRunAttempt())
	if title := run.GetDisplayTitle(); title != "" {
		s.WriteString(": " + title)
	}
	return ci.Result{
		Name: name, Ref: run.GetHeadBranch(), Commit: run.GetHeadSHA(), URL: run.GetHTMLURL(),
		Summary: s.String(), DurationMS: between(run.GetRunStartedAt(), run.GetUpdatedAt()),
	}
}

func workflowJob(e *github.WorkflowJobEvent) ci.Result {
	job := e.GetWorkflowJob()
	name := job.GetName()
	if w := job.GetWorkflowName(); w != "" {
		name = w + " / " + name
	}
	var failures []ci.Failure
	for _, step := range job.Steps {
		if conclusion := step.GetConclusion(); conclusion == "failure" || conclusion == "timed_out" {
			failures = append(failures, ci.Failure{
				Name:    cmp.Or(step.GetName(), fmt.Sprintf("step %d", step.GetNumber())),
				Message: fmt.Sprintf("step %d %s", step.GetNumber(), outcomeText(conclusion)),
			})
		}
	}
	var s strings.Builder
	s.WriteString(name + " " + outcomeText(job.GetConclusion()))
	writeAttempt(&s, int(job.GetRunAttempt()))
	if len(failures) > 0 {
		s.WriteString(", at step " + failures[0].Name)
	}
	return ci.Result{
		Name: name, Ref: job.GetHeadBranch(), Commit: job.GetHeadSHA(), URL: job.GetHTMLURL(),
		Summary: s.String(), Failures: failures, DurationMS: between(job.GetStartedAt(), job.GetCompletedAt()),
	}
}

func checkRun(e *github.CheckRunEvent) ci.Result {
	run := e.GetCheckRun()
	title, summary := run.GetOutput().GetTitle(), run.GetOutput().GetSummary()
	r := ci.Result{
		Name: run.GetName(), Ref: run.GetCheckSuite().GetHeadBranch(), Commit: run.GetHeadSHA(),
		URL:     cmp.Or(run.GetHTMLURL(), run.GetDetailsURL()),
		Summary: run.GetName() + " " + outcomeText(run.GetConclusion()), DurationMS: between(run.GetStartedAt(), run.GetCompletedAt()),
	}
	if title != "" {
		r.Summary += ": " + title
	}
	if outcomes[run.GetConclusion()].status != ci.StatusSuccess && title+summary != "" {
		r.Failures = []ci.Failure{{Name: cmp.Or(title, run.GetName()), Message: summary}}
	}
	return r
}

func checkSuite(e *github.CheckSuiteEvent) ci.Result {
	suite := e.GetCheckSuite()
	name := cmp.Or(suite.GetApp().GetName(), suite.GetApp().GetSlug(), "check suite")
	summary := name + " " + outcomeText(suite.GetConclusion())
	switch n := suite.GetLatestCheckRunsCount(); {
	case n == 1:
		summary += ", 1 check run"
	case n > 1:
		summary += fmt.Sprintf(", %d check runs", n)
	}
	r := ci.Result{
		Name: name, Ref: suite.GetHeadBranch(), Commit: suite.GetHeadSHA(),
		Summary: summary, DurationMS: between(suite.GetCreatedAt(), suite.GetUpdatedAt()),
	}
	// A suite has no page of its own: its URL is that of the API.
	if repo := e.GetRepo().GetHTMLURL(); repo != "" && r.Commit != "" {
		r.URL = repo + "/commit/" + r.Commit + "/checks"
	}
	return r
}

// outcomeText returns the verb for a conclusion, such as "timed out".
func outcomeText(conclusion string) string { return cmp.Or(outcomes[conclusion].text, conclusion) }

func writeAttempt(s *strings.Builder, n int) {
	if n > 1 {
		fmt.Fprintf(s, ", attempt %d", n)
	}
}

// between returns a duration in milliseconds, or 0 if it is unknown.
func between(from, to github.Timestamp) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, float64(to.Sub(from.Time).Milliseconds()))
}
