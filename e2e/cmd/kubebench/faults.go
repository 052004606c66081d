package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// crashed is the end of the log of a container that panicked, after more than is kept
// of it.
func crashed() string {
	var b strings.Builder
	for i := range 400 {
		_, _ = fmt.Fprintf(&b, `{"level":"info","msg":"served the cart of customer %d in 12 ms","path":"/api/cart"}`+"\n", i)
	}
	b.WriteString("panic: runtime error: invalid memory address or nil pointer dereference\n\ngoroutine 41 [running]:\n")
	for i := range 12 {
		_, _ = fmt.Fprintf(&b, "main.(*cart).step%d(0x0)\n\t/src/cart.go:%d +0x1d\n", i, 40+i)
	}
	return b.String()
}

// lastOf sets a pod to a crash loop, and waits until that is on the stream: then
// earlier changes are processed.
func (s *testbed) lastOf(ctx context.Context, pod *corev1.Pod) error {
	if _, err := s.cluster.CrashLoop(ctx, pod, "app", 2, 3); err != nil {
		return err
	}
	var last error
	if !harness.Poll(ctx, arrival, func() bool {
		m, found, err := s.conn.Newest(ctx, bus.StreamKubernetes, bus.KubernetesFilter{Cluster: clusterName}.Faults())
		last = err
		return found && strings.Contains(string(m.Data), pod.Name)
	}) {
		return errors.Join(errors.New("a fault is not on the stream"), last)
	}
	return nil
}

// fault is a line of kubernetes/faults.
type fault struct {
	at     time.Time
	pod    string
	logs   int
	panics bool
}

// measureFaults measures the time from the state of a pod to the notification about it,
// and to the one with the logs. Faults come one at a time, so that none waits for
// another.
func (z sizes) measureFaults(ctx context.Context, s *testbed) (all []harness.Figure, err error) {
	kubelet, err := s.cluster.Kubelet(ctx, "node-1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kubelet.Close()) }()
	pods := make([]*corev1.Pod, z.faults)
	if err := each(ctx, z.faults, z.writers, func(ctx context.Context, i int) (err error) {
		pods[i], err = s.cluster.Pod(ctx, namespace, fmt.Sprintf("web-%d", i), map[string]string{"app": "web"})
		return err
	}); err != nil {
		return nil, err
	}
	text := crashed()
	for _, pod := range pods {
		kubelet.SetLog(pod, "app", kube.Log{Current: "started\n", Previous: text})
	}
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	sub, err := s.subscribe(ctx, map[string]any{"namespaces": []string{namespace}, "mode": "faults"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.close()) }()
	received := make(chan fault, 4*z.faults)
	sub.listen(func(at time.Time, line []byte) {
		if f, is := faultOf(at, line); is {
			received <- f
		}
	})

	var delivered, logged []time.Duration
	for _, pod := range pods {
		if _, err := s.cluster.CrashLoop(ctx, pod, "app", 2, 3); err != nil {
			return nil, err
		}
		set := time.Now()
		first, err := next(ctx, received, pod.Name)
		if err != nil {
			return nil, err
		}
		second, err := next(ctx, received, pod.Name)
		if err != nil {
			return nil, err
		}
		if first.logs > 0 || second.logs == 0 || !second.panics {
			return nil, fmt.Errorf("the fault of %s was delivered as %+v and %+v", pod.Name, first, second)
		}
		delivered, logged = append(delivered, max(0, first.at.Sub(set))), append(logged, max(0, second.at.Sub(set)))
	}
	return []harness.Figure{
		{What: "crash loop, from the API server's answer to the notification", Measured: harness.Quantiles(delivered)},
		{What: "  to the one with its logs, current and previous", Measured: harness.Quantiles(logged)},
	}, nil
}

func next(ctx context.Context, received <-chan fault, pod string) (fault, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case f := <-received:
			if f.pod == pod {
				return f, nil
			}
		case <-ctx.Done():
			return fault{}, fmt.Errorf("the fault of %s: no notification within %s", pod, patience)
		}
	}
}

func faultOf(at time.Time, line []byte) (fault, bool) {
	var n struct {
		Params struct {
			Logger string `json:"logger"`
			Data   struct {
				Event struct {
					InvolvedObject struct {
						Name string `json:"name"`
					} `json:"involvedObject"`
				} `json:"event"`
				Logs []struct {
					HasPanic bool `json:"hasPanic"`
				} `json:"logs"`
			} `json:"data"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &n) != nil || n.Params.Logger != "kubernetes/faults" {
		return fault{}, false
	}
	f := fault{at: at, pod: n.Params.Data.Event.InvolvedObject.Name, logs: len(n.Params.Data.Logs)}
	for _, l := range n.Params.Data.Logs {
		f.panics = f.panics || l.HasPanic
	}
	return f, true
}
