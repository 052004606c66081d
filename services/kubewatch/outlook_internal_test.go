package kubewatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// TestOutlook: degraded and recovered are told once each, whoever was told before.
func TestOutlook(t *testing.T) {
	start := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		was   bool
		signs []int // how many errors, one sign a second
		told  []string
	}{
		"it works":                      {signs: []int{0, 0}},
		"four errors are none":          {signs: []int{1, 2, 3, 4, 0, 1, 2, 0}},
		"five are":                      {signs: []int{1, 2, 3, 4, 5, 6, 7}, told: []string{"4: degraded since 0"}},
		"and its end":                   {signs: []int{0, 1, 2, 3, 4, 5, 6, 0, 0}, told: []string{"5: degraded since 1", "7: recovered since 7"}},
		"and again":                     {signs: []int{1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}, told: []string{"4: degraded since 0", "5: recovered since 5", "10: degraded since 6"}},
		"a predecessor told it":         {was: true, signs: []int{1, 2, 3, 4, 5, 6, 0}, told: []string{"6: recovered since 6"}},
		"a predecessor told it, so far": {was: true, signs: []int{0}, told: []string{"0: recovered since 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := outlook{watch: kube.Watch{Degraded: tt.was}}
			var told []string
			for i, n := range tt.signs {
				s := feed.Sign{Errors: n}
				if n > 0 {
					s.Err = errors.New("no")
				}
				if !o.take(s, start.Add(time.Duration(i)*time.Second), func(s string) string { return s + "!" }) {
					continue
				}
				state := "recovered"
				if o.watch.Degraded {
					state = "degraded"
					if o.watch.Error != "no!" {
						t.Errorf("%+v", o.watch)
					}
				}
				told = append(told, fmt.Sprintf("%d: %s since %v", i, state, o.watch.Since.Sub(start).Seconds()))
			}
			if !slices.Equal(told, tt.told) {
				t.Errorf("%q, want %q", told, tt.told)
			}
		})
	}
}
