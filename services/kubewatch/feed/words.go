package feed

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// minBackoff and maxBackoff bound the pause after an error, before the part by
	// chance: it is 1 to 30 s.
	minBackoff = time.Second
	maxBackoff = 25 * time.Second
	// maxAsked bounds the pause that a server asks for.
	maxAsked = time.Minute
)

// backoff is the pause after so many errors, the first being 1: twice as long each time,
// and up to a fifth longer, so that not all who wait ask at the same time.
func backoff(errors int) time.Duration {
	pause := minBackoff << min(errors-1, 10)
	pause = min(pause, maxBackoff)
	return pause + rand.N(pause/5) //nolint:gosec // so that not all ask at once; nobody gains by guessing it
}

// reasonAhead is the reason of our own for a version that the cluster has not come to.
const reasonAhead metav1.StatusReason = "TocsinAhead"

// expired says whether the cluster has forgotten the version that it was asked from.
func expired(err error) bool {
	return apierrors.ReasonForError(err) != reasonAhead && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err))
}

// hopeless says whether to ask from the same version again is of no use.
func hopeless(err error) bool {
	return expired(err) || ahead(err) || errors.Is(err, errBehind) || errors.Is(err, ErrOther)
}

// ahead says whether the cluster has not yet come to the version that it was asked from:
// it was put back to an older state, or is behind others that answer for it.
func ahead(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// mark stands for a bookmark on its way through the watcher, which would keep it.
type mark struct {
	metav1.TypeMeta
	version string
}

func (m *mark) GetResourceVersion() string     { return m.version }
func (m *mark) DeepCopyObject() runtime.Object { return m }

// marked is a bookmark as something that the watcher hands on.
func marked(e watch.Event) watch.Event {
	if o, is := e.Object.(*corev1.Event); is {
		return watch.Event{Type: watch.Modified, Object: &mark{version: o.ResourceVersion}}
	}
	return e
}

// newer says whether a version is after another one. What can't be compared is: twice is
// better than never, and the bus knows what it has.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}

func compare(a, b string) int {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return strings.Compare(a, b)
	}
	return order
}

// explained are the words that say what to do about a refusal.
var explained = []struct {
	is    func(error) bool
	words string
}{
	{apierrors.IsUnauthorized, "the cluster does not know these credentials; renew them, and where they are in the kubeconfig itself, start kubewatch anew"},
	{apierrors.IsForbidden, "the cluster does not let us: kubewatch needs to list and watch events, and to get the namespace kube-system, see deploy/kubernetes/kubewatch/access"},
	{is[*tls.CertificateVerificationError], "the kubeconfig may be of a cluster that was here before: renew it, and start kubewatch anew"},
	{unanswered, "see that the cluster runs, and that the kubeconfig has its address"},
}

// is says whether an error is one of a type, or wraps one.
func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// unanswered says whether there was nobody to ask.
func unanswered(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "dial"
}

// Explained says what to do about an error of a cluster, where that is known.
func Explained(err error) error {
	for _, e := range explained {
		if e.is(err) {
			return fmt.Errorf("%w: %s", err, e.words)
		}
	}
	return err
}
