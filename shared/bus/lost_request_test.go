package bus_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// loseRequests runs a proxy in front of a NATS server that loses the first n messages which
// a client publishes on a subject with a prefix. It returns the proxy's URL, and a function
// that returns how many were lost.
func loseRequests(t *testing.T, server, prefix string, n int) (url string, lost func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	dropped := 0
	drop := func(subject string) bool {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(subject, prefix) || dropped == n {
			return false
		}
		dropped++
		return true
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			node, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() { defer func() { _ = client.Close() }(); _, _ = bufio.NewReader(node).WriteTo(client) })
			running.Go(func() { defer func() { _ = node.Close() }(); passRequests(client, node, drop) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return "nats://" + l.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return dropped
	}
}

// passRequests passes on the protocol of a NATS client, except messages on a subject for
// which drop returns true.
func passRequests(from, to net.Conn, drop func(subject string) bool) {
	r := bufio.NewReader(from)
	for {
		frame, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		fields := bytes.Fields(frame)
		lose := false
		if len(fields) > 1 && (bytes.Equal(fields[0], []byte("PUB")) || bytes.Equal(fields[0], []byte("HPUB"))) {
			size, err := strconv.Atoi(string(fields[len(fields)-1]))
			if err != nil {
				return
			}
			payload := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(r, payload); err != nil {
				return
			}
			frame = append(frame, payload...)
			lose = drop(string(fields[1]))
		}
		if lose {
			continue
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// TestReadToEndOverLostRequests checks that reading ends within the time that a tool has for
// it, 3 s, when the requests to two consumers for messages are lost. In a cluster that happens
// if a consumer answers before all servers know that it listens.
func TestReadToEndOverLostRequests(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{})
	writer := connect(t, rig.Config(bus.RoleIngest))
	bustest.Eventually(t, "connection", writer.Connected)
	publisher, err := bus.NewPublisher(writer, 1)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 3
	for i := range messages {
		m := &nats.Msg{Subject: bus.CIResultSubject("github", fmt.Sprint("c", i), "unit", "passed"), Data: []byte("{}")}
		if _, err := publisher.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	cfg := rig.Config(bus.RoleGateway)
	url, lost := loseRequests(t, rig.URLOf(0), "$JS.API.CONSUMER.MSG.NEXT.", 2)
	cfg.URL = url
	reader := connect(t, cfg)
	t.Cleanup(reader.Close) // before the proxy waits for it
	bustest.Eventually(t, "connection", reader.Connected)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	read := 0
	err = reader.ReadToEnd(ctx, bus.FollowConfig{Stream: bus.StreamCI, Logger: quiet()}, func(bus.Message) error { read++; return nil })
	if err != nil {
		t.Errorf("ReadToEnd = error %v, want none", err)
	}
	if read != messages {
		t.Errorf("ReadToEnd read %d messages, want %d", read, messages)
	}
	if n := lost(); n != 2 {
		t.Errorf("%d requests were lost, want 2", n)
	}
}

// TestFollowOverLostRequests checks that a request that was lost is sent again, although the
// caller has more time than that.
func TestFollowOverLostRequests(t *testing.T) {
	for _, request := range []string{"$JS.API.STREAM.INFO.", "$JS.API.CONSUMER.CREATE."} {
		t.Run(request, func(t *testing.T) {
			rig := bustest.Cluster(t, 1)
			rig.Provision(bus.Layout{})
			writer := connect(t, rig.Config(bus.RoleIngest))
			bustest.Eventually(t, "connection", writer.Connected)
			publisher, err := bus.NewPublisher(writer, 1)
			if err != nil {
				t.Fatal(err)
			}
			m := &nats.Msg{Subject: bus.CIResultSubject("github", "c1", "unit", "passed"), Data: []byte("{}")}
			if _, err := publisher.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			cfg := rig.Config(bus.RoleGateway)
			url, lost := loseRequests(t, rig.URLOf(0), request, 1)
			cfg.URL = url
			reader := connect(t, cfg)
			t.Cleanup(reader.Close) // before the proxy waits for it
			bustest.Eventually(t, "connection", reader.Connected)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			read := 0
			err = reader.Follow(ctx, bus.FollowConfig{Stream: bus.StreamCI, Logger: quiet()}, func(bus.Message) error {
				read++
				return bus.ErrStop
			})
			if err != nil {
				t.Errorf("Follow = error %v, want none", err)
			}
			if read != 1 {
				t.Errorf("Follow read %d messages, want 1", read)
			}
			if n := lost(); n != 1 {
				t.Errorf("%d requests were lost, want 1", n)
			}
		})
	}
}

// TestReadOverLostRequests checks that a read whose request was lost ends, although the caller
// set no deadline, and that the next one is answered.
func TestReadOverLostRequests(t *testing.T) {
	for name, read := range map[string]func(*bus.Session) error{
		"Read": func(s *bus.Session) error {
			_, err := s.Read(t.Context(), bus.StreamAlerts, 1, 10)
			return err
		},
		"Newest": func(s *bus.Session) error {
			_, _, err := s.Newest(t.Context(), bus.StreamAlerts, ">")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := bustest.Cluster(t, 1)
			rig.Provision(bus.Layout{})
			cfg := rig.Config(bus.RoleGateway)
			url, lost := loseRequests(t, rig.URLOf(0), "$JS.API.DIRECT.GET.", 1)
			cfg.URL = url
			reader := connect(t, cfg)
			t.Cleanup(reader.Close) // before the proxy waits for it
			bustest.Eventually(t, "connection", reader.Connected)
			for i, want := range []error{context.DeadlineExceeded, nil} {
				if err := read(reader); !errors.Is(err, want) {
					t.Errorf("read %d = error %v, want %v", i, err, want)
				}
			}
			if n := lost(); n != 1 {
				t.Errorf("%d requests were lost, want 1", n)
			}
		})
	}
}
