package triage

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// kind is the kind of an alert: a category, or one of the following.
type kind string

const (
	// unknownCategory is for unknown categories.
	unknownCategory kind = "other"
	// alreadyResolved is for alerts that were resolved before they were delivered.
	alreadyResolved kind = "already resolved"
	// ciPassed is for CI results that are successes.
	ciPassed kind = "ci passed"
	// deploy is for CI successes that have symptoms.
	deploy kind = "deploy"
)

// advice is what an agent should do about a kind of alert.
type advice struct{ check, verify, ack string }

var adviceByKind = map[kind]advice{
	kind(alert.Errors): {
		check:  "the message and the stack (observe what: errors), and what changed in the code that they name since it last worked.",
		verify: "run the step that failed again, then observe what: errors: the message does not come back.",
		ack:    "once it no longer occurs, or if it is older than your work and the user accepts it.",
	},
	kind(alert.NetworkErrors): {
		check:  "the request and its status (observe what: network): the handler that answers it, its log (observe what: logs), and for 401, 403 and 429 the credentials and limits.",
		verify: "send the request again: it has the expected status, and observe what: network shows it.",
		ack:    "once it succeeds, or if the failure was intended, as in a test.",
	},
	kind(alert.Anomaly): {
		check:  "what came in the seconds of the spike (observe what: errors, or network). It usually has one cause: find the most frequent message or request, and what was deployed or run just before.",
		verify: "repeat what caused the spike: the count stays low.",
		ack:    "once the rate is back to normal and you know why it rose.",
	},
	kind(alert.Regression): {
		check:  "the page and the vital that got worse (observe what: vitals): what it loads and when, and what changed since the baseline: bundles, images, blocking requests, layout.",
		verify: "load the page several times: the vital is back at its baseline.",
		ack:    "once it is, or if the user accepts the new value.",
	},
	kind(alert.CI): {
		check:  "the result's summary and failures (observe what: ci) and the commit: run the failed case here first.",
		verify: "the case passes here, then the pipeline's next run is a success.",
		ack:    "once that run has passed, or if the failure has a known cause elsewhere.",
	},
	kind(alert.Threshold): {
		check:  "for memory, what grew (observe what: status, logs); for a circuit breaker, the service behind it and why its calls fail.",
		verify: "an alert reports that the state is back to normal.",
		ack:    "once it is, or if the limit is wrong and the user knows.",
	},
	kind(alert.Security): {
		check:  "what was blocked and which page asked for it (observe what: security): a missing rule, or something that should not be there. Do not relax a policy without the user's consent.",
		verify: "load the page again: nothing is reported.",
		ack:    "once the user knows of it.",
	},
	kind(alert.UserFrustration): {
		check:  "the target that was clicked or submitted repeatedly (observe what: actions), and the errors and requests of those seconds: it probably did nothing, or was too slow.",
		verify: "do the same once: there is a visible response.",
		ack:    "once it responds.",
	},
	kind(alert.Kubernetes): {
		check:  "the object and the last lines of its logs (observe what: kubernetes): for a crash, the panic or exit code; for out of memory, the limit and what grew; for an image, its name and credentials; for a deployment or job, its pods; and what was deployed just before. Change nothing in a cluster without the user's consent.",
		verify: "an alert reports that it is resolved (crashes, out of memory and warnings have no such alert), and observe what: kubernetes shows no new fault of that object.",
		ack:    "once it is resolved, or if the user knows of it.",
	},
	kind(alert.Noise): {
		check:  "the rules (configure action: noise, noise_action: list): does one hide something important?",
		verify: "nothing important is hidden; else remove the rule.",
		ack:    "once you have checked.",
	},
	ciPassed: {
		check:  "nothing to fix; it may end a failure that you are working on.",
		verify: "it is of the commit that you wait for.",
		ack:    "at once.",
	},
	deploy: {
		check:  "what the commit changed in what its symptoms name. The run itself did not fail.",
		verify: "after a fix or a rollback, its symptoms do not come back.",
		ack:    "once they stay away, or if the user accepts them.",
	},
	alreadyResolved: {
		check:  "nothing to fix now; find out whether a change resolved it or whether it may come back.",
		verify: "it has not come back (tocsin://alerts/{id}).",
		ack:    "at once.",
	},
	unknownCategory: {
		check:  "the alert itself, and what observe shows about its app at that time.",
		verify: "it is not raised again.",
		ack:    "once you have verified it, or if the user accepts it.",
	},
}

func kindOf(a alert.Alert) kind {
	switch {
	case a.Category == alert.CI && a.Severity == alert.Info && a.Symptoms > 0:
		return deploy
	case a.Category == alert.CI && a.Severity == alert.Info:
		return ciPassed
	case a.IsResolution():
		return alreadyResolved
	}
	if _, known := adviceByKind[kind(a.Category)]; known {
		return kind(a.Category)
	}
	return unknownCategory
}

// guide returns the advice for a kind, or a reference to the task that has it, if task is not
// 0.
func (k kind) guide(task int) string {
	if task > 0 {
		return fmt.Sprintf("- %s: as in task %d\n", k, task)
	}
	a := adviceByKind[k]
	return fmt.Sprintf("- %s\n  - check: %s\n  - verify: %s\n  - acknowledge: %s\n", k, a.check, a.verify, a.ack)
}
