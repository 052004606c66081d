package fold

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestTable checks that no two rules share a field of the snapshot, and that none uses
// one that is not for rules.
func TestTable(t *testing.T) {
	seen := map[protowire.Number]bool{}
	for i, e := range table {
		if e.number < 16 {
			t.Errorf("rule %d has number %d, want 16 or more", i, e.number)
		}
		if seen[e.number] {
			t.Errorf("rule %d has number %d of another rule, want its own", i, e.number)
		}
		if seen[e.number] = true; indexOf(e.number) != i {
			t.Errorf("indexOf(%d) = %d, want %d", e.number, indexOf(e.number), i)
		}
	}
	if got := indexOf(1); got != -1 {
		t.Errorf("indexOf(1) = %d, want -1", got)
	}
}
