package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// Lines is a gateway on stdio, message by message: the SDK's client does not show the order
// and the times of messages.
type Lines struct {
	// Log is the gateway's stderr.
	Log  *Log
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}
}

// StartLines runs tocsin gateway on a state directory. It calls message with each line
// of stdout and the time when it was read, from one goroutine; message must not keep the line.
func StartLines(bin, stateDir string, message func(at time.Time, line []byte), args ...string) (*Lines, error) {
	l := &Lines{
		Log: &Log{}, done: make(chan struct{}),
		cmd: exec.Command(bin, append([]string{"gateway", "--autostart=false"}, args...)...), //nolint:noctx // ended by Close
	}
	l.cmd.Env, l.cmd.Dir, l.cmd.Stderr = Env(stateDir), stateDir, l.Log
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	go func() {
		defer close(l.done)
		lines := bufio.NewScanner(out)
		lines.Buffer(make([]byte, 0, 64<<10), maxLine)
		for lines.Scan() {
			message(time.Now(), lines.Bytes())
		}
	}()
	return l, nil
}

// Send writes one message to stdin.
func (l *Lines) Send(message []byte) error {
	_, err := l.in.Write(append(message, '\n'))
	return err
}

// Done is closed at the end of stdout.
func (l *Lines) Done() <-chan struct{} { return l.done }

// Close closes stdin and waits for the gateway's end.
func (l *Lines) Close() error {
	err := l.in.Close()
	<-l.done
	return errors.Join(err, l.cmd.Wait())
}
