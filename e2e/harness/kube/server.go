// Package kube runs a real Kubernetes API server for tests, and plays the parts that
// are missing around it: it writes what a kubelet or a controller would write, and
// serves the logs of containers as a kubelet does.
//
// The server is the process of e2e/kube-apiserver. One may serve many tests, each in a
// namespace of its own. The package asserts nothing of Tocsin, and knows nothing of it.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

const (
	// startTimeout bounds a start, which takes 3 s on an idle machine.
	startTimeout = 2 * time.Minute
	// stopTimeout bounds the end after SIGTERM. Then the server is killed.
	stopTimeout = 15 * time.Second
	// controlTimeout bounds a request to the control listener.
	controlTimeout = 30 * time.Second
)

// ErrNotBuilt is returned if the server was not built. That takes minutes, and tests do
// not do it on their own.
var ErrNotBuilt = errors.New("the Kubernetes API server of the tests is not built: run make kube-apiserver")

// Options are the settings of a server. The zero value has the server's defaults.
type Options struct {
	// EventTTL is how long events are kept, 0 for an hour. etcd counts in seconds, and
	// deletes within a second or so.
	EventTTL time.Duration
	// MinRequestTimeout is in whole seconds: a watch is closed at random between it and
	// twice as long. 0 is 30 min.
	MinRequestTimeout time.Duration
	// NoWatchCache makes the server read watches from etcd for all kinds, as it does
	// for events, so that Compact affects all.
	NoWatchCache bool
	// Context is the name of the context in the kubeconfig, "" for "test".
	Context string
}

// Server is a running API server, or one that was killed and can be started again.
// Kill, Restart, Kubelet and Close are for one goroutine; the other methods are safe
// for concurrent use.
type Server struct {
	bin, dir, kubeconfig string
	opts                 Options
	client               *kubernetes.Clientset
	config               *rest.Config
	process              *process
	output               ready
	node                 string // the node of new pods
}

// ready is the line that a server prints when it is ready.
type ready struct{ Kubeconfig, Control string }

// process is a server process between two restarts.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer // the server watches the other end, and ends with this process
	stdout *harness.Log
	done   chan struct{}
}

// Start runs a server for a test. It skips the test if the server is not built.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := Run(t.TempDir(), opts)
	if errors.Is(err, ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Run runs a server on a directory: a new cluster in an empty one, otherwise the
// cluster that it had before. The server is ready when Run returns; Close ends it.
func Run(dir string, opts Options) (*Server, error) {
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, opts: opts}
	if err := s.start(); err != nil {
		return nil, err
	}
	if err := s.connect(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// binary returns the path of the server.
func binary() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the tree: %w", err)
	}
	for {
		script := filepath.Join(dir, "e2e", "kube-apiserver", "build.sh")
		if _, err := os.Stat(script); err == nil {
			var stderr strings.Builder
			cmd := exec.Command(script, "--path") //nolint:noctx // it reads four files
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
				return "", ErrNotBuilt
			}
			if err != nil {
				return "", fmt.Errorf("run %s to find the server: %w\n%s", script, err, stderr.String())
			}
			return strings.TrimSpace(string(out)), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find e2e/kube-apiserver/build.sh: no directory above this one has it")
		}
		dir = filepath.Dir(dir)
	}
}

// start starts the process and waits until it is ready.
func (s *Server) start() error {
	args := []string{"--dir=" + s.dir, "--until-stdin-closes", fmt.Sprintf("--watch-cache=%t", !s.opts.NoWatchCache)}
	if s.opts.EventTTL > 0 {
		args = append(args, "--event-ttl="+s.opts.EventTTL.String())
	}
	if s.opts.MinRequestTimeout > 0 {
		args = append(args, "--min-request-timeout="+s.opts.MinRequestTimeout.String())
	}
	log, err := os.OpenFile(s.logFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	defer log.Close()
	p := &process{cmd: exec.Command(s.bin, args...), stdout: &harness.Log{}, done: make(chan struct{})} //nolint:noctx // ended by Kill or Close
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	s.process = p
	go func() {
		_ = p.cmd.Wait() // its exit code is in cmd.ProcessState
		close(p.done)
	}()
	if harness.Poll(context.Background(), startTimeout, func() bool { return p.ended() || strings.HasSuffix(p.stdout.String(), "\n") }) && !p.ended() {
		if err := json.Unmarshal([]byte(p.stdout.String()), &s.output); err != nil {
			return errors.Join(fmt.Errorf("decode the output of the API server, %q: %w", p.stdout, err), s.Kill())
		}
		return nil
	}
	return errors.Join(fmt.Errorf("the API server did not become ready:\n%s", s.lastLog()), s.Kill())
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// connect makes the administrator's client, and the kubeconfig with the context of the
// options.
func (s *Server) connect() error {
	s.kubeconfig = s.output.Kubeconfig
	c, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	if name := s.opts.Context; name != "" && name != c.CurrentContext {
		c.Contexts[name] = c.Contexts[c.CurrentContext]
		delete(c.Contexts, c.CurrentContext)
		c.CurrentContext = name
		s.kubeconfig = filepath.Join(s.dir, "kubeconfig-"+name)
		if err := clientcmd.WriteToFile(*c, s.kubeconfig); err != nil {
			return fmt.Errorf("write the administrator's kubeconfig: %w", err)
		}
	}
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig); err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	s.config.QPS = -1 // no limit of ours
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	return nil
}

// Kubeconfig returns the path of the administrator's kubeconfig. A restart does not
// change it.
func (s *Server) Kubeconfig() string { return s.kubeconfig }

// Config returns the administrator's configuration, for other clients.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Client returns the administrator's client, without a rate limit. It outlives
// restarts.
func (s *Server) Client() kubernetes.Interface { return s.client }

// PID returns the process's id.
func (s *Server) PID() int { return s.process.cmd.Process.Pid }

// Compact makes etcd delete the history before its current revision. A client that
// watches events from an older one gets 410 Gone; an open watch goes on. For other
// kinds the server answers from a cache of the changes since its start: their clients
// get 410 after Compact and Restart, or with NoWatchCache. Without that cache an open
// watch of events gets no bookmarks either.
func (s *Server) Compact() error {
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.output.Control+"/compact", http.NoBody)
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	answer, err := harness.Do(req)
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	if answer.Status != http.StatusOK {
		return fmt.Errorf("compact etcd: %d %s", answer.Status, answer.Body)
	}
	return nil
}

// Kill kills the server, as kill -9 does, and waits for its end.
func (s *Server) Kill() error {
	if err := s.process.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the API server: %w", err)
	}
	<-s.process.done
	return nil
}

// Restart starts the server again, at the same address with the same objects, and
// returns once it is ready. It kills one that still runs.
func (s *Server) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start()
}

// Close ends the server.
func (s *Server) Close() error {
	p := s.process
	if p.ended() {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the API server: %w", err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("the API server did not end within %s of SIGTERM:\n%s", stopTimeout, s.lastLog()), s.Kill())
	}
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

// lastLog returns the end of the server's log, for the message of a failed test.
func (s *Server) lastLog() string {
	data, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	const kept = 8 << 10
	return string(data[max(0, len(data)-kept):])
}
