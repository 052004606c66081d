package detector

import (
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestTogether(t *testing.T) {
	news := alert.Alert{ID: "a"}
	revision, end := alert.Alert{ID: "b", Revises: "a"}, alert.Alert{ID: "c", Resolves: "a"}
	for _, tt := range []struct {
		name  string
		batch []alert.Alert
		want  []int
	}{
		{"one", []alert.Alert{news}, []int{1}},
		{"a revision of what was said before", []alert.Alert{revision}, []int{1}},
		{"all news go together", []alert.Alert{news, news, news}, []int{3}},
		{"a revision waits for what it revises", []alert.Alert{news, news, revision, news}, []int{2, 2}},
		{"an end waits for what it ends", []alert.Alert{news, end}, []int{1, 1}},
		{"each waits for the one before", []alert.Alert{news, revision, revision, end}, []int{1, 1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for rest := tt.batch; len(rest) > 0; {
				n := together(rest)
				got, rest = append(got, n), rest[n:]
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
