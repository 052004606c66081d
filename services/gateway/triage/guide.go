package triage

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// kind selects the advice for an alert: its category, or one of the following.
type kind string

const (
	// unknownCategory is an alert of a category that is not known here.
	unknownCategory kind = "other"
	// alreadyResolved is an alert that was resolved before it was delivered.
	alreadyResolved kind = "already resolved"
	// ciPassed is a CI success.
	ciPassed kind = "ci passed"
	// deploy is a CI success that probably caused other alerts, its symptoms.
	deploy kind = "deploy"
)

// advice is what an agent should do about a kind of alert.
type advice struct{ check, verify, ack string }

// adviceByKind has, for each kind, what to check, how to verify the fix, and when to
// acknowledge.
var adviceByKind = map[kind]advice{
	kind(alert.Errors): {
		"the message and the stack (observe what: errors), and what changed in the code that they name since it last worked.",
		"run the step that failed again, then observe what: errors: the message does not come back.",
		"once it no longer occurs, or if it is older than your work and the user accepts it.",
	},
	kind(alert.NetworkErrors): {
		"the request and its status (observe what: network): the handler that answers it, its log (observe what: logs), and for 401, 403 and 429 the credentials and limits.",
		"send the request again: it has the expected status, and observe what: network shows it.",
		"once it succeeds, or if the failure was intended, as in a test.",
	},
	kind(alert.Anomaly): {
		"the errors and requests in the seconds of the spike (observe what: errors, or network). It usually has one cause: find the most frequent message or request, and what was deployed or run just before.",
		"repeat what caused the spike: the error count stays low.",
		"once the rate is back to normal and you know why it rose.",
	},
	kind(alert.Regression): {
		"the page and the vital that got worse (observe what: vitals): what it loads and when, and what changed since the baseline: bundles, images, blocking requests, layout.",
		"load the page several times: the vital is back at its baseline.",
		"once it is, or if the user accepts the new value.",
	},
	kind(alert.CI): {
		"the result's summary and failures (observe what: ci) and the commit: run the failed case here first.",
		"the case passes here, then the pipeline's next run is a success.",
		"once that run has passed, or if the failure has a known cause elsewhere.",
	},
	kind(alert.Threshold): {
		"for memory, what grew (observe what: status, logs); for a circuit breaker, the service behind it and why its calls fail.",
		"an alert reports that the state is back to normal.",
		"once it is, or if the limit is wrong and the user knows.",
	},
	kind(alert.Security): {
		"what was blocked and which page asked for it (observe what: security): a missing rule, or something that should not be on the page. Do not relax a policy without the user's consent.",
		"load the page again: nothing is reported.",
		"once the user knows about it.",
	},
	kind(alert.UserFrustration): {
		"the target that was clicked or submitted repeatedly (observe what: actions), and the errors and requests of those seconds: it probably did nothing, or was too slow.",
		"do the same once: there is a visible response.",
		"once it responds.",
	},
	kind(alert.Kubernetes): {
		"the object and the last lines of its logs (observe what: kubernetes): for a crash, the panic or exit code; for out of memory, the limit and what grew; for an image, its name and credentials; for a deployment or job, its pods; and what was deployed just before. Change nothing in a cluster without the user's consent.",
		"an alert reports that it is resolved (crashes, out of memory and warnings have no such alert), and observe what: kubernetes shows no new fault of that object.",
		"once it is resolved, or if the user knows about it.",
	},
	kind(alert.Noise): {
		"the rules (configure action: noise, noise_action: list): does one hide something important?",
		"nothing important is hidden; otherwise remove the rule.",
		"once you have checked.",
	},
	ciPassed: {
		"nothing to fix; it may end a failure that you are working on.",
		"it is for the commit that you are waiting for.",
		"at once.",
	},
	deploy: {
		"which changes of the commit concern what the symptoms name. The CI run itself passed.",
		"after a fix or a rollback, the symptoms do not come back.",
		"once they stay away, or if the user accepts them.",
	},
	alreadyResolved: {
		"nothing to fix now; find out whether a change resolved it or whether it may come back.",
		"it has not come back (tocsin://alerts/{id}).",
		"at once.",
	},
	unknownCategory: {
		"the alert itself, and what observe shows about its app at that time.",
		"it is not raised again.",
		"once you have verified it, or if the user accepts it.",
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
