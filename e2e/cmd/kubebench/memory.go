package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// resident is the resident memory of a process in bytes: now, and its peak since that
// was reset.
type resident struct{ now, peak int64 }

// residentOf reads the memory of a process from /proc.
func residentOf(pid int) (r resident, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return r, fmt.Errorf("read the memory of a process: %w", err)
	}
	for line := range bytes.Lines(data) {
		field := bytes.Fields(line)
		if len(field) != 3 || string(field[2]) != "kB" {
			continue
		}
		n, err := strconv.ParseInt(string(field[1]), 10, 64)
		if err != nil {
			return r, fmt.Errorf("read the memory of a process: %w", err)
		}
		switch string(field[0]) {
		case "VmRSS:":
			r.now = n << 10
		case "VmHWM:":
			r.peak = n << 10
		}
	}
	if r.now == 0 {
		return r, errors.New("read the memory of a process: /proc has no VmRSS of it")
	}
	return r, nil
}

// resetPeak resets the peak of a process.
func resetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200); err != nil {
		return fmt.Errorf("reset the peak of a process: %w", err)
	}
	return nil
}

func mib[T int64 | float64](n T) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// memory is the memory of kubewatch and the API server.
type memory struct {
	kubewatch, server resident
	// heap is the size of kubewatch's heap with garbage, live what the newest
	// collection left.
	heap, live float64
}

// memory waits a while, so that memory that is no longer used is returned, and reads
// it.
func (s *testbed) memory(ctx context.Context, settle time.Duration) (m memory, err error) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return m, ctx.Err()
	}
	if m.kubewatch, err = residentOf(s.kubewatch.PID()); err != nil {
		return m, err
	}
	if m.server, err = residentOf(s.cluster.PID()); err != nil {
		return m, err
	}
	if m.heap, err = s.gauge(ctx, "go_memstats_heap_inuse_bytes"); err != nil {
		return m, err
	}
	// The next collection is due at twice what the last one left (GOGC=100).
	m.live, err = s.gauge(ctx, "go_memstats_next_gc_bytes")
	m.live /= 2
	return m, errors.Join(err, resetPeak(s.kubewatch.PID()), resetPeak(s.cluster.PID()))
}

func (m memory) figure(what string) harness.Figure {
	return harness.Figure{What: what, Measured: fmt.Sprintf("%s resident, peak %s; heap %s, live %s; API server %s, peak %s",
		mib(m.kubewatch.now), mib(m.kubewatch.peak), mib(m.heap), mib(m.live), mib(m.server.now), mib(m.server.peak))}
}

// measureMemory measures what pods cost: those that are created while kubewatch
// watches, changes of their states, and those that exist when it starts.
func (z sizes) measureMemory(ctx context.Context, s *testbed) (all []harness.Figure, err error) {
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	note := func(what string) (m memory, err error) {
		m, err = s.memory(ctx, z.settle)
		all = append(all, m.figure(what))
		return m, err
	}
	none, err := note("memory of kubewatch, no pods")
	if err != nil {
		return nil, err
	}

	pods := make([]*corev1.Pod, z.pods)
	started := time.Now()
	if err := each(ctx, z.pods, z.writers, func(ctx context.Context, i int) (err error) {
		pods[i], err = s.pod(ctx, i)
		return err
	}); err != nil {
		return nil, err
	}
	created := time.Since(started)
	if err := s.digested(ctx, z.pods); err != nil {
		return nil, err
	}
	some, err := note(fmt.Sprintf("  %d pods (%d bytes each) came in %s, each in two steps", z.pods, pods[0].Size(), harness.Rounded(created)))
	if err != nil {
		return nil, err
	}

	started = time.Now()
	if err := each(ctx, z.pods, z.writers, func(ctx context.Context, i int) (err error) {
		pods[i].Status = statusOf(pods[i], 1)
		pods[i], err = s.podStatus(ctx, pods[i])
		return err
	}); err != nil {
		return nil, err
	}
	updated := time.Since(started)
	started = time.Now()
	if err := s.lastOf(ctx, pods[len(pods)-1]); err != nil {
		return nil, err
	}
	behind := time.Since(started)
	if _, err := note(fmt.Sprintf("  %d changes of state in %s", z.pods, harness.Rounded(updated))); err != nil {
		return nil, err
	}

	if err := s.stopKubewatch(); err != nil {
		return nil, err
	}
	started = time.Now()
	if err := s.startKubewatch(); err != nil {
		return nil, err
	}
	// Events are published once all pods are known.
	if err := s.probe(ctx); err != nil {
		return nil, err
	}
	watching := time.Since(started)
	if err := s.digested(ctx, z.pods); err != nil {
		return nil, err
	}
	again, err := note(fmt.Sprintf("  started beside %d pods", z.pods))
	if err != nil {
		return nil, err
	}
	each := func(before, after float64) string { return fmt.Sprintf("%.0f bytes", (after-before)/float64(z.pods)) }
	return append(all,
		harness.Figure{What: "  a pod of these", Measured: fmt.Sprintf("%s live in the heap as they came, %s where they were there; resident %s and %s", each(none.live, some.live), each(none.live, again.live),
			each(float64(none.kubewatch.now), float64(some.kubewatch.now)), each(float64(none.kubewatch.now), float64(again.kubewatch.now)))},
		harness.Figure{What: "  after the changes, a fault set to its message on the stream", Measured: harness.Rounded(behind).String()},
		harness.Figure{What: "  from the start to the first event on the stream, all pods listed", Measured: harness.Rounded(watching).String()},
	), nil
}

// digested waits until kubewatch reports so many objects, which it does once a second.
func (s *testbed) digested(ctx context.Context, n int) error {
	var have float64
	var err error
	known := harness.Poll(ctx, arrival, func() bool {
		have, err = s.gauge(ctx, fmt.Sprintf("tocsin_kubewatch_objects{cluster=%q}", clusterName))
		return err == nil && have >= float64(n)
	})
	if !known {
		return errors.Join(fmt.Errorf("kubewatch knows %.0f of %d objects", have, n), err)
	}
	return nil
}
