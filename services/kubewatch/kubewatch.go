// Package kubewatch watches Kubernetes clusters, each once for all who want to know,
// and publishes what happens there: events as the cluster tells them, faults that are
// found in events and in the state of objects, and the logs that go with those.
package kubewatch
