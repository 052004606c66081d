package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// answers reads messages until each of these requests is answered, and returns
// the titles of all the alerts in them. A cancelled one may be answered by an
// error.
func (c *client) answers(t *testing.T, ids ...int) (delivered []string) {
	t.Helper()
	waiting := map[int]bool{}
	for _, id := range ids {
		waiting[id] = true
	}
	for len(waiting) > 0 {
		m := c.next(t)
		if !waiting[m.ID] {
			t.Fatalf("got %s, want the answer to a request", m.raw)
		}
		delete(waiting, m.ID)
		if m.Error != nil {
			continue
		}
		if r := m.tool(t); len(r.blocks) == 2 {
			delivered = append(delivered, strings.Fields(testrig.Titles(t, r.blocks[1]))...)
		}
	}
	return delivered
}

// TestObservesAtOnce: agents call tools concurrently, and one of the calls delivers an
// alert.
func TestObservesAtOnce(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "parallel")
	c.delivered(t)
	for range 5 {
		a := r.Alert(alert.Error)
		r.Publish(t, a)
		var ids []int
		for range 4 {
			ids = append(ids, c.send(t, "tools/call", `{"name":"observe","arguments":{"what":"alerts","wait_seconds":1}}`))
		}
		if delivered := fmt.Sprint(c.answers(t, ids...)); delivered != "["+a.ID+"]" {
			t.Fatalf("delivered %s, want %s", delivered, a.ID)
		}
	}
}

// TestCancelAsAnAlertComes: a call that is cancelled as an alert comes either delivers it
// or leaves it to the next.
func TestCancelAsAnAlertComes(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "fickle")
	c.delivered(t)
	for range 50 {
		a := r.Alert(alert.Error)
		held := c.send(t, "tools/call", `{"name":"observe","arguments":{"what":"alerts","wait_seconds":30}}`)
		published := make(chan struct{})
		go func() {
			defer close(published)
			r.Publish(t, a)
		}()
		c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, held))
		<-published
		delivered := c.answers(t, held)
		delivered = append(delivered, c.answers(t, c.send(t, "tools/call", fmt.Sprintf(`{"name":"observe","arguments":{"what":"alerts","wait_seconds":%d}}`, 5*(1-len(delivered)))))...)
		if got := fmt.Sprint(delivered); got != "["+a.ID+"]" {
			t.Fatalf("delivered %s, want %s", got, a.ID)
		}
	}
}
