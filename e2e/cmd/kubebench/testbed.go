package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// clusterName is the context in the kubeconfig, and so the cluster's name.
	clusterName = "bench"
	// namespace is the namespace of all objects.
	namespace = "shop"
	// patience bounds the wait for what happens soon, arrival the wait for a whole round.
	patience = 30 * time.Second
	arrival  = 10 * time.Minute
)

// testbed is a cluster, a bus, and a kubewatch between them that may be stopped and
// started.
type testbed struct {
	bin       string
	cluster   *kube.Server
	client    kubernetes.Interface // in protobuf, without a rate limit
	bus       *harness.Bus
	conn      *bus.Session // reads the stream afterwards
	health    string
	kubewatch *harness.Process // nil while it is stopped
	runs      int
}

// withTestbed runs f on a new testbed.
func withTestbed(ctx context.Context, bin string, f func(context.Context, *testbed) ([]harness.Figure, error)) (all []harness.Figure, err error) {
	dir, err := os.MkdirTemp("", "tocsin-kubebench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &testbed{bin: bin}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx, dir); err != nil {
		return nil, err
	}
	if all, err = f(ctx, s); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.logs())
	}
	return all, nil
}

func (s *testbed) open(ctx context.Context, dir string) (err error) {
	own := filepath.Join(dir, "cluster")
	if err := os.Mkdir(own, 0o700); err != nil {
		return err
	}
	if s.cluster, err = kube.Run(own, kube.Options{Context: clusterName}); err != nil {
		return err
	}
	config := s.cluster.Config()
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	config.WarningHandler = rest.NoWarnings{}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make namespace %s: %w", namespace, err)
	}
	if s.bus, err = harness.Up(ctx, s.bin, filepath.Join(dir, "state")); err != nil {
		return err
	}
	s.conn, err = bus.Connect(ctx, bus.Config{
		Name: "kubebench", Role: bus.RoleGateway, Dir: statedir.At(s.bus.StateDir), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if !harness.Poll(ctx, patience, s.conn.Connected) {
		return errors.New("no connection to the bus")
	}
	s.health, err = freeAddr(ctx)
	return err
}

func (s *testbed) close() (err error) {
	err = s.stopKubewatch()
	if s.conn != nil {
		s.conn.Close()
	}
	if s.bus != nil {
		err = errors.Join(err, s.bus.Stop())
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Close())
	}
	return err
}

func (s *testbed) logs() string {
	text := s.bus.Log.String()
	if s.kubewatch != nil {
		text += s.kubewatch.Log.String()
	}
	return text
}

// freeAddr returns an address that no process listens on now.
func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// startKubewatch starts a kubewatch, and returns at once.
func (s *testbed) startKubewatch() (err error) {
	s.kubewatch, err = harness.Start(s.bin, s.bus.StateDir, nil, "kubewatch",
		"--kubeconfig="+s.cluster.Kubeconfig(), "--context="+clusterName, "--health-addr="+s.health)
	return err
}

// watch starts a kubewatch, and returns once later events are published.
func (s *testbed) watch(ctx context.Context) error {
	if err := s.startKubewatch(); err != nil {
		return err
	}
	return s.probe(ctx)
}

// probe writes events until one of them is on the bus.
func (s *testbed) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Probe", Namespace: namespace, Name: fmt.Sprintf("probe-%d", s.kubewatch.PID())}
	for {
		if _, err := s.cluster.Event(ctx, namespace, about, corev1.EventTypeNormal, "Probe", "is the cluster watched?"); err != nil {
			return err
		}
		m, found, err := s.conn.Newest(ctx, bus.StreamKubernetes, bus.KubernetesFilter{Cluster: clusterName, Kind: "Probe"}.Events())
		if err != nil {
			return fmt.Errorf("wait for the kubewatch: %w", err)
		}
		if found && strings.Contains(string(m.Data), about.Name) {
			return nil
		}
		select {
		case <-s.kubewatch.Done():
			return errors.New("the kubewatch has ended")
		case <-ctx.Done():
			return errors.New("the kubewatch has not published the probe in time")
		case <-tick.C:
		}
	}
}

func (s *testbed) stopKubewatch() error {
	if s.kubewatch == nil {
		return nil
	}
	err := s.kubewatch.Stop()
	s.kubewatch = nil
	return err
}

// gauge returns the value of one of kubewatch's series, by its name with the labels as
// they are printed.
func (s *testbed) gauge(ctx context.Context, series string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.health+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := harness.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of kubewatch: %w", err)
	}
	for line := range strings.Lines(answer.Body) {
		if value, is := strings.CutPrefix(line, series+" "); is {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("read the metrics of kubewatch: there is no %s", series)
}
