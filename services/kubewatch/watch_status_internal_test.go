package kubewatch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// TestWatchStatus checks that degraded and recovered are published once each, also after a
// predecessor.
func TestWatchStatus(t *testing.T) {
	start := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		wasDegraded bool
		errors      []int // consecutive errors, one report a second
		want        []string
	}{
		"works":                      {errors: []int{0, 0}},
		"four errors":                {errors: []int{1, 2, 3, 4, 0, 1, 2, 0}},
		"five errors":                {errors: []int{1, 2, 3, 4, 5, 6, 7}, want: []string{"4: degraded since 0"}},
		"recovers":                   {errors: []int{0, 1, 2, 3, 4, 5, 6, 0, 0}, want: []string{"5: degraded since 1", "7: recovered since 7"}},
		"degraded twice":             {errors: []int{1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}, want: []string{"4: degraded since 0", "5: recovered since 5", "10: degraded since 6"}},
		"published by a predecessor": {wasDegraded: true, errors: []int{1, 2, 3, 4, 5, 6, 0}, want: []string{"6: recovered since 6"}},
		"published by a predecessor, works again": {wasDegraded: true, errors: []int{0}, want: []string{"0: recovered since 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := watchStatus{published: kube.Watch{Degraded: tt.wasDegraded}}
			var got []string
			for i, n := range tt.errors {
				h := feed.Health{Errors: n}
				if n > 0 {
					h.Err = errors.New("no")
				}
				if !s.update(h, start.Add(time.Duration(i)*time.Second), func(s string) string { return s + "!" }) {
					continue
				}
				state := "recovered"
				if s.published.Degraded {
					state = "degraded"
					if s.published.Error != "no!" {
						t.Errorf("error = %q, want the cleaned one, %q", s.published.Error, "no!")
					}
				}
				got = append(got, fmt.Sprintf("%d: %s since %v", i, state, s.published.Since.Sub(start).Seconds()))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
		})
	}
}
