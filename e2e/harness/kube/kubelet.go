package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Log is a kubelet's log of a container. Current is that of the container that runs,
// Previous of the one before it.
type Log struct {
	Current, Previous string
	// NotThere means that the container has not run yet, so that even Current is
	// refused. Previous "" means that it was not restarted.
	NotThere bool
	// Delay is the time before the answer, less if the client cancels.
	Delay time.Duration
	// Status, unless 0, is answered with Body instead of the log.
	Status int
	Body   string
}

// LogRequest is a request to a kubelet.
type LogRequest struct {
	Namespace, Pod, Container string
	Previous                  bool
	TailLines, LimitBytes     int64 // -1: not given
}

// Kubelet serves the logs of a node's containers to the API server over TLS, and to no
// other client, as a kubelet does.
type Kubelet struct {
	server *http.Server
	served chan struct{}

	mu               sync.Mutex
	logs             map[[3]string]Log
	requests         []LogRequest
	inFlight, atOnce int
}

// Kubelet adds a node that is ready, and its kubelet. Pods that are created afterwards
// are on it. Close ends the kubelet; the node stays.
func (s *Server) Kubelet(ctx context.Context, node string) (*Kubelet, error) {
	cert, err := s.certificate(x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	if err != nil {
		return nil, fmt.Errorf("start a kubelet: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.config.CAData)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		return nil, fmt.Errorf("start a kubelet: %w", err)
	}
	k := &Kubelet{logs: map[[3]string]Log{}, served: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.containerLogs)
	k.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_ = k.server.Serve(l)
		close(k.served)
	}()
	port := l.Addr().(*net.TCPAddr).Port
	if err := s.addNode(ctx, node, int32(port)); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	s.node = node
	return k, nil
}

// Close ends the kubelet and its connections.
func (k *Kubelet) Close() error {
	err := k.server.Close()
	<-k.served
	return err
}

// SetLog sets the log of a pod's container.
func (k *Kubelet) SetLog(pod *corev1.Pod, container string, log Log) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logs[[3]string{pod.Namespace, pod.Name, container}] = log
}

// Requests returns the requests so far.
func (k *Kubelet) Requests() []LogRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]LogRequest(nil), k.requests...)
}

// MostAtOnce returns the largest number of requests that waited for their answer at the
// same time.
func (k *Kubelet) MostAtOnce() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.atOnce
}

// containerLogs answers as the kubelet's getContainerLogs does: 404 for an unknown
// container, 400 for a log that does not exist.
func (k *Kubelet) containerLogs(w http.ResponseWriter, r *http.Request) {
	request, err := logRequest(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	log, known := k.beginRequest(request)
	defer k.endRequest()
	if log.Delay > 0 {
		wait := time.NewTimer(log.Delay)
		defer wait.Stop()
		select {
		case <-r.Context().Done():
			return
		case <-wait.C:
		}
	}
	text := log.Current
	if request.Previous {
		text = log.Previous
	}
	switch {
	case !known:
		http.Error(w, fmt.Sprintf("pod %q does not exist", request.Pod), http.StatusNotFound)
	case log.Status != 0:
		http.Error(w, log.Body, log.Status)
	case request.Previous && text == "":
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", request.Container, request.Pod), http.StatusBadRequest)
	case !request.Previous && log.NotThere:
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start: ContainerCreating", request.Container, request.Pod), http.StatusBadRequest)
	default:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(cut([]byte(text), request.TailLines, request.LimitBytes))
	}
}

func (k *Kubelet) beginRequest(request LogRequest) (log Log, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests = append(k.requests, request)
	k.inFlight++
	k.atOnce = max(k.atOnce, k.inFlight)
	log, known = k.logs[[3]string{request.Namespace, request.Pod, request.Container}]
	return log, known
}

func (k *Kubelet) endRequest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inFlight--
}

func logRequest(r *http.Request) (LogRequest, error) {
	q := r.URL.Query()
	request := LogRequest{
		Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"), Container: r.PathValue("container"),
		Previous: strings.EqualFold(q.Get("previous"), "true"),
	}
	var err error
	if request.TailLines, err = number(q, "tailLines", 0); err != nil {
		return request, err
	}
	if request.LimitBytes, err = number(q, "limitBytes", 1); err != nil {
		return request, err
	}
	return request, nil
}

// number returns a number of the query, -1 if it is missing.
func number(q url.Values, name string, least int64) (int64, error) {
	if !q.Has(name) {
		return -1, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s is %q, want a number of at least %d", name, q.Get(name), least)
	}
	return n, nil
}

// lineBytes is the length at which a container runtime splits a line (containerd's
// max_container_log_line_size). The kubelet counts each part as a line.
const lineBytes = 16 << 10

// cut returns the part of a log that a kubelet sends (ReadLogs in k8s.io/cri-client):
// its last lines, and of these the FIRST bytes. Without a limit of lines they are the
// bytes at the beginning of the log. A limit of -1 is none.
func cut(log []byte, tailLines, limitBytes int64) []byte {
	if tailLines >= 0 {
		starts := lineStarts(log)
		if skip := int64(len(starts)) - tailLines; tailLines == 0 {
			log = nil
		} else if skip > 0 {
			log = log[starts[skip]:]
		}
	}
	if limitBytes >= 0 {
		log = log[:min(int64(len(log)), limitBytes)]
	}
	return log
}

// lineStarts returns where the lines of the runtime's file begin.
func lineStarts(log []byte) []int {
	var starts []int
	for at := 0; at < len(log); {
		starts = append(starts, at)
		line := log[at:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end+1]
		}
		// The end of a line of the greatest length stays with it.
		if len(bytes.TrimSuffix(line, []byte("\n"))) > lineBytes {
			line = line[:lineBytes]
		}
		at += len(line)
	}
	return starts
}
