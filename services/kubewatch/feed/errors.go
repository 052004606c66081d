package feed

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// reasonAhead is our own status reason for a version that the cluster has not reached.
const reasonAhead metav1.StatusReason = "TocsinAhead"

// isExpired reports whether the cluster no longer knows the version of a request.
func isExpired(err error) bool {
	return apierrors.ReasonForError(err) != reasonAhead && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err))
}

// isPermanent reports whether a retry with the same version is of no use.
func isPermanent(err error) bool {
	return isExpired(err) || isAhead(err) || errors.Is(err, errBehind) || errors.Is(err, ErrOther)
}

// isAhead reports whether the cluster has not reached the version of a request: it was
// restored to an older state, or lags behind others that answer for it.
func isAhead(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isNewer reports whether version a is after b. Versions that can't be compared count as
// newer: the bus recognizes an event that is published twice.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

func compareVersions(a, b string) int {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return strings.Compare(a, b)
	}
	return order
}

// explanations are instructions for the errors that have one.
var explanations = []struct {
	applies func(error) bool
	text    string
}{
	{apierrors.IsUnauthorized, "the cluster does not accept these credentials; renew them, and restart kubewatch if they are in the kubeconfig itself"},
	{apierrors.IsForbidden, "kubewatch needs the rights to list and watch events, and to get the namespace kube-system: see deploy/kubernetes/kubewatch/access"},
	{wraps[*tls.CertificateVerificationError], "the kubeconfig may be of a former cluster: renew it and restart kubewatch"},
	{isDialError, "check that the cluster runs and that the kubeconfig has its address"},
}

// wraps reports whether an error is, or wraps, one of a type.
func wraps[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// isDialError reports whether no server could be reached.
func isDialError(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "dial"
}

// Explained adds to an error of a cluster what to do about it, if that is known.
func Explained(err error) error {
	for _, e := range explanations {
		if e.applies(err) {
			return fmt.Errorf("%w: %s", err, e.text)
		}
	}
	return err
}
