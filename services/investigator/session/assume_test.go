package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Facts that are assumed before they are stored lead to the same state.
func TestAssumeIsApply(t *testing.T) {
	w := newSim(t, testPlan(testStage("investigation", Any, testAgent("triage", "kubernetes"), testAgent("writer"))))
	want := w.run()
	got, err := Fold(w.messages[:1])
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range w.messages[1:] {
		for _, f := range m { // one by one, as a worker decides
			if err := got.Assume([]Fact{f}); err != nil {
				t.Fatal(err)
			}
		}
		got.Stored(uint64(i) + 2)
		for _, r := range got.Running() {
			if r.Execution == "" || r.Listed && len(r.Servers) > 1 {
				t.Errorf("running %+v, want an id and the servers of its agent", r)
			}
		}
	}
	if diff := cmp.Diff(fingerprint(want), fingerprint(got)); diff != "" {
		t.Errorf("the state after Assume (-want from Apply +got):\n%s", diff)
	}
	if got.Sequence() != want.Sequence() || got.Attempt() != 1 {
		t.Errorf("sequence %d, attempt %d; want %d and 1", got.Sequence(), got.Attempt(), want.Sequence())
	}
	if err := (&Session{}).Assume([]Fact{{Released: &Released{}}}); err == nil {
		t.Error("Assume without a first fact = nil, want an error")
	}
}
