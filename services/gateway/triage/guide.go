package triage

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// cause is a kind of finding. Its text is ours: a category that is not known is
// other.
type cause string

const (
	other cause = "other"
	// over is for findings that ended before they were told.
	over cause = "over already"
	// passed is for CI results that are successes.
	passed cause = "ci passed"
	// deployed is for those under which alerts are told.
	deployed cause = "deploy"
)

// advice is what an agent does about a kind of finding.
type advice struct{ look, verify, ack string }

var advices = map[cause]advice{
	cause(alert.Errors): {
		look:   "the message and the stack (observe what: errors), and what was changed in the code that they name since it last worked.",
		verify: "run the step that failed again, then observe what: errors: the message does not come back.",
		ack:    "once it stays away, or when it was there before you and the user accepts it.",
	},
	cause(alert.NetworkErrors): {
		look:   "the request and its status (observe what: network): the handler that answers it, its log (observe what: logs), and for 401, 403 and 429 the credentials and limits.",
		verify: "send the request again: its status is as it should be, and observe what: network shows it.",
		ack:    "once it succeeds, or when the failure was asked for, as in a test.",
	},
	cause(alert.Anomaly): {
		look:   "what came in the seconds of the spike (observe what: errors, or network): usually one cause, so find the message or the request that is most frequent, and what was deployed or run just before.",
		verify: "repeat what led to the spike: the count stays low.",
		ack:    "once the rate is back to normal and you know why it rose.",
	},
	cause(alert.Regression): {
		look:   "the page and the vital that got worse (observe what: vitals): what it loads and when, and what was changed since the baseline: bundles, images, blocking requests, layout.",
		verify: "load the page several times: the vital is back at its baseline.",
		ack:    "once it is, or when the user accepts the new cost.",
	},
	cause(alert.CI): {
		look:   "the result's summary and failures (observe what: ci) and the commit: run the failed case here first.",
		verify: "the case passes here, then the pipeline's next run is a success.",
		ack:    "once that run has passed, or when the failure has a known cause elsewhere.",
	},
	cause(alert.Threshold): {
		look:   "for memory what grew (observe what: status, logs), for a circuit the service behind it and why its calls fail.",
		verify: "an alert says that the state is back to normal.",
		ack:    "once it is, or when the limit is what is wrong and the user knows.",
	},
	cause(alert.Security): {
		look:   "what was blocked and which page asked for it (observe what: security): a missing rule, or something that should not be there. Loosen no policy without the user's word.",
		verify: "load the page again: nothing is reported.",
		ack:    "once the user knows of it.",
	},
	cause(alert.UserFrustration): {
		look:   "the target that was clicked or submitted again and again (observe what: actions) and the errors and requests of those seconds: it probably did nothing, or too slowly.",
		verify: "do the same once: there is an answer that one can see.",
		ack:    "once it answers.",
	},
	cause(alert.Kubernetes): {
		look:   "the object and the last lines of its logs (observe what: kubernetes): the panic or exit code of a container, for out of memory its limit and what grew, for an image its name and credentials, for a deployment or job its pods; and what was deployed just before. Change nothing in a cluster without the user's word.",
		verify: "an alert says that it is over, but for a crash, out of memory or a warning, which have no end; and observe what: kubernetes shows no new one of that object.",
		ack:    "once it is over, or when the user knows of it.",
	},
	cause(alert.Noise): {
		look:   "the rules (configure action: noise, noise_action: list): does one hide what matters?",
		verify: "nothing is hidden that should be seen; else remove the rule.",
		ack:    "once you have looked.",
	},
	passed: {
		look:   "nothing is to be mended; it may end a failure that you are working on.",
		verify: "it is of the commit that you wait for.",
		ack:    "at once.",
	},
	deployed: {
		look:   "what the commit changed, of what the alerts under it name. Nothing failed in the run itself.",
		verify: "once it is mended or rolled back, what is under it does not come again.",
		ack:    "once it does not, or when the user accepts what it brought.",
	},
	over: {
		look:   "nothing is to be mended now; find out whether a change ended it or it may come back.",
		verify: "it has not come back since (tocsin://alerts/{id}).",
		ack:    "at once.",
	},
	other: {
		look:   "what the alert says, and what observe shows of its app at that time.",
		verify: "what raised it does not happen again.",
		ack:    "once you have, or when the user accepts it.",
	},
}

func causeOf(a alert.Alert) cause {
	switch {
	case a.Category == alert.CI && a.Severity == alert.Info && a.Symptoms > 0:
		return deployed
	case a.Category == alert.CI && a.Severity == alert.Info:
		return passed
	case a.IsResolution():
		return over
	}
	if _, known := advices[cause(a.Category)]; known {
		return cause(a.Category)
	}
	return other
}

// guide says what to do about a kind of finding, or in which task that was said;
// 0 is none.
func (c cause) guide(said int) string {
	if said > 0 {
		return fmt.Sprintf("- %s: as in task %d\n", c, said)
	}
	a := advices[c]
	return fmt.Sprintf("- %s\n  - look at: %s\n  - verify: %s\n  - acknowledge: %s\n", c, a.look, a.verify, a.ack)
}
