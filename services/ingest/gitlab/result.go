package gitlab

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/tocsin-bus/tocsin/shared/ci"
)

// The statuses of pipelines and jobs that are results. The others (created, running,
// canceled, skipped, manual, ...) are ignored.
const (
	succeeded = "success"
	failed    = "failed"
)

// scriptFailures are the failure reasons for which the job's own script is to blame. All
// others (runner_system_failure, stuck_or_timeout_failure, job_execution_timeout, ...) are
// errors of the runner.
var scriptFailures = map[string]bool{"script_failure": true, "unknown_failure": true, "": true}

func pipeline(e *gitlab.PipelineEvent) (ci.Result, string, error) {
	p := &e.ObjectAttributes
	r := ci.Result{
		Name: cmp.Or(p.Name, "pipeline"), Ref: p.Ref, Commit: p.SHA, DurationMS: max(0, float64(p.Duration)*1000),
		URL: cmp.Or(p.URL, page(e.Project.WebURL, "pipelines", p.ID)),
	}
	summary := fmt.Sprintf("pipeline #%d", p.ID)
	switch p.Status {
	case "":
		return r, "", errors.New("object_attributes.status is missing: results have success or failed")
	case succeeded:
		r.Status = ci.StatusSuccess
		summary += " passed"
	case failed:
		r.Status = ci.StatusFailure
		summary += " failed"
	default:
		return r, fmt.Sprintf("pipeline %s: only success and failed are an outcome", p.Status), nil
	}
	if p.Source != "" {
		summary += " on " + strings.ReplaceAll(strings.TrimSuffix(p.Source, "_event"), "_", " ")
	}
	if r.Status == ci.StatusFailure {
		r.Failures = failedJobs(e.Builds)
	}
	switch n := len(r.Failures); {
	case n == 1:
		summary += fmt.Sprintf(", 1 of %d jobs failed", len(e.Builds))
	case n > 1:
		summary += fmt.Sprintf(", %d of %d jobs failed", n, len(e.Builds))
	}
	if title := cmp.Or(e.Commit.Title, firstLine(e.Commit.Message)); title != "" {
		summary += ": " + title
	}
	r.Summary = summary
	return r, "", nil
}

func failedJobs(builds []gitlab.PipelineEventBuild) []ci.Failure {
	var all []ci.Failure
	for i := range builds {
		if b := &builds[i]; b.Status == failed && !b.AllowFailure {
			all = append(all, ci.Failure{Name: jobName(b.Stage, b.Name), Message: b.FailureReason})
		}
	}
	return all
}

func job(e *gitlab.JobEvent) (ci.Result, string, error) {
	name := jobName(e.BuildStage, e.BuildName)
	r := ci.Result{
		Name: name, Ref: e.Ref, Commit: e.SHA, URL: page(cmp.Or(e.Project.WebURL, homepage(e.Repository)), "jobs", e.BuildID),
		DurationMS: max(0, e.BuildDuration*1000),
	}
	switch {
	case e.BuildStatus == "":
		return r, "", errors.New("build_status is missing: results have success or failed")
	case e.BuildStatus == succeeded:
		r.Status, r.Summary = ci.StatusSuccess, name+" passed"
	case e.BuildStatus != failed:
		return r, fmt.Sprintf("job %s: only success and failed are an outcome", e.BuildStatus), nil
	case e.BuildAllowFailure:
		return r, "job failed: it is allowed to fail", nil
	default:
		r.Status, r.Summary = ci.StatusError, name+" failed"
		if scriptFailures[e.BuildFailureReason] {
			r.Status = ci.StatusFailure
		}
		if e.BuildFailureReason != "" {
			r.Summary += ": " + strings.ReplaceAll(e.BuildFailureReason, "_", " ")
		}
	}
	return r, "", nil
}

func jobName(stage, name string) string {
	if stage == "" {
		return name
	}
	return stage + " / " + name
}

func homepage(r *gitlab.Repository) string {
	if r == nil {
		return ""
	}
	return cmp.Or(r.Homepage, r.WebURL)
}

// page returns the URL of a pipeline or job. It is "" where an older version of GitLab does
// not send its parts.
func page(project, kind string, id int64) string {
	if project == "" || id == 0 {
		return ""
	}
	return project + "/-/" + kind + "/" + strconv.FormatInt(id, 10)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}
