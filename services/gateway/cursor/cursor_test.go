package cursor_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/cursor"
)

func TestBeyond(t *testing.T) {
	then, now := time.Unix(1, 0), time.Unix(2, 0)
	for _, tt := range []struct {
		p, q cursor.Position
		want bool
	}{
		{cursor.Position{Seq: 5, Created: then}, cursor.Position{Seq: 4, Created: then}, true},
		{cursor.Position{Seq: 5, Created: then}, cursor.Position{Seq: 5, Created: then}, false},
		{cursor.Position{Seq: 5, Created: then}, cursor.Position{Seq: 6, Created: then}, false},
		{cursor.Position{Seq: 1, Created: now}, cursor.Position{Seq: 6, Created: then}, true},
	} {
		if got := tt.p.Beyond(tt.q); got != tt.want {
			t.Errorf("%v beyond %v: %v", tt.p, tt.q, got)
		}
	}
}
