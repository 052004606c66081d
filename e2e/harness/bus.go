package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// startWithin bounds the start of a process, on a busy machine and with the race
	// detector.
	startWithin = time.Minute
	// stopWithin bounds the end of a process after SIGTERM.
	stopWithin = 15 * time.Second
	// quitWithin bounds the end of a process after SIGQUIT.
	quitWithin = 5 * time.Second
)

// Process is a running tocsin.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	// Log is its stderr, Stdout its stdout.
	Log, Stdout *Log
}

// Start runs tocsin with arguments on a state directory.
func Start(bin, stateDir string, env []string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(bin, args...), done: make(chan struct{}), Log: &Log{}, Stdout: &Log{}} //nolint:noctx // ended by Stop or Kill
	p.cmd.Env = Env(stateDir, env...)
	p.cmd.Dir = os.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = p.Stdout, p.Log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start tocsin %v: %w", args, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode waits for the end of the process and returns its exit code.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Stop sends SIGTERM and waits for the end of the process.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop tocsin: %w", err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopWithin):
		return errors.Join(fmt.Errorf("tocsin did not end within %s of SIGTERM", stopWithin), p.quit())
	}
}

// quit makes a process that hangs write its stacks to the log, and ends it.
func (p *Process) quit() error {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err == nil {
		select {
		case <-p.done:
			return nil
		case <-time.After(quitWithin):
		}
	}
	return p.Kill()
}

// Kill kills the process, as kill -9 does, and waits for its end.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill tocsin: %w", err)
	}
	<-p.done
	return nil
}

// Bus is a running tocsin up.
type Bus struct {
	*Process
	statedir.Runtime
	StateDir string
}

// freePorts are the flags that let tests run side by side.
var freePorts = []string{"--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--ingest-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0"}

// Up runs tocsin up on free ports and returns when it has written runtime.json.
func Up(ctx context.Context, bin, stateDir string, args ...string) (*Bus, error) {
	return UpEnv(ctx, bin, stateDir, nil, args...)
}

// UpEnv is Up with more environment.
func UpEnv(ctx context.Context, bin, stateDir string, env []string, args ...string) (*Bus, error) {
	args = append(append([]string{"up"}, freePorts...), args...)
	p, err := Start(bin, stateDir, env, args...)
	if err != nil {
		return nil, err
	}
	b := &Bus{Process: p, StateDir: stateDir}
	ended := false
	announced := Poll(ctx, startWithin, func() bool {
		select {
		case <-p.done:
			ended = true
			return true
		default:
		}
		r, err := statedir.At(stateDir).Running()
		b.Runtime = r
		return err == nil && r.PID == p.PID()
	})
	if !announced || ended {
		return nil, errors.Join(fmt.Errorf("tocsin up was not ready within %s:\n%s", startWithin, p.Log), p.Kill())
	}
	return b, nil
}

// Answer is an HTTP response with its body.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// JSON decodes the body into v.
func (a Answer) JSON(v any) error { return json.Unmarshal([]byte(a.Body), v) }

// client returns a client that keeps no connections: after a bus was killed they would be
// broken, and after a test their goroutines would remain.
func client() *http.Client {
	return &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

// Post sends JSON to ingest.
func (b *Bus) Post(ctx context.Context, path string, body any) (Answer, error) {
	data, ok := body.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return Answer{}, fmt.Errorf("encode the body: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.IngestURL+path, bytes.NewReader(data))
	if err != nil {
		return Answer{}, fmt.Errorf("post %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	return Do(req)
}

// Do sends a request and reads the response.
func Do(req *http.Request) (Answer, error) { return DoWith(client(), req) }

// DoWith is Do with the caller's client, which may keep connections.
func DoWith(c *http.Client, req *http.Request) (Answer, error) {
	resp, err := c.Do(req)
	if err != nil {
		return Answer{}, err
	}
	body, readErr := io.ReadAll(resp.Body)
	if err := errors.Join(readErr, resp.Body.Close()); err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, nil
}
