package kubewatch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// eventID returns the Nats-Msg-Id of an event. All kubewatches use the same.
func eventID(uid string, e *kube.Event) string { return uid + "/" + e.UID + "/" + e.ResourceVersion }

// kubernetesMessage returns a message for the stream KUBERNETES.
func kubernetesMessage(m *kube.Message, id string) (*nats.Msg, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a message of cluster %s: %w", m.Cluster, err)
	}
	return withID(bus.KubernetesSubject(m), id, data), nil
}

// alertMessage returns a message for the detector.
func alertMessage(a *external.Alert, id string) (*nats.Msg, error) {
	data, err := external.Append([]byte{'['}, a)
	if err != nil {
		return nil, err
	}
	return withID(bus.SubjectIntakeAlerts, id+"/alert", append(data, ']')), nil
}

func withID(subject, id string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{jetstream.MsgIDHeader: {id}}, Data: data}
}

// statusAlert returns the alert about a degraded watch, and resolves it if the watch has
// recovered. began is the status with which it began.
func statusAlert(cluster string, status, began kube.Watch) *external.Alert {
	sum := sha256.Sum256([]byte("watch\x00" + cluster))
	a := &external.Alert{
		Source: alert.SourceKubernetes, Key: hex.EncodeToString(sum[:16]), Episode: strconv.FormatInt(began.Since.UnixMilli(), 10),
		State: external.StateFiring, Severity: alert.Warning, App: telemetry.SenderApp(cluster), Name: "WatchDegraded", Place: cluster,
		Summary: "the events of this cluster can't be watched", Detail: began.Error, StartsAt: began.Since,
		Fault: &external.Fault{Cluster: cluster, Kind: kube.KindCluster, Name: cluster, Fault: kube.WatchDegraded},
	}
	if !status.Degraded {
		a.State, a.EndsAt = external.StateResolved, status.Since
	}
	return a
}

// statusID returns the Nats-Msg-Id of a change of the watch's status.
func statusID(key string, status kube.Watch) string {
	state := "recovered"
	if status.Degraded {
		state = "degraded"
	}
	return "watch/" + key + "/" + state + "/" + strconv.FormatInt(status.Since.UnixMilli(), 10)
}
