package ci_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/ci"
)

// parse reads results such as a:failure, where a is the name.
func parse(text string) ci.Result {
	name, status, _ := strings.Cut(text, ":")
	return ci.Result{Status: status, Source: ci.SourceCustom, Commit: "c1", Name: name}
}

func TestNewest(t *testing.T) {
	for name, c := range map[string]struct{ stored, newest, outdated string }{
		"nothing":                          {"", "", ""},
		"one":                              {"a:failure", "a:failure", ""},
		"the same again":                   {"a:failure a:failure", "a:failure", "a:failure"},
		"the same again, amid others":      {"a:failure b:success a:failure", "b:success a:failure", "a:failure"},
		"three times":                      {"a:error a:error a:error", "a:error", "a:error a:error"},
		"failure, success, failure":        {"a:failure a:success a:failure", "a:failure a:success a:failure", ""},
		"each of them doubled":             {"a:failure a:failure a:success a:success a:failure a:failure", "a:failure a:success a:failure", "a:failure a:success a:failure"},
		"names alike but for case":         {"Build:failure build:failure", "Build:failure build:failure", ""},
		"names alike in a subject":         {"テスト:failure ビルド:failure", "テスト:failure ビルド:failure", ""},
		"ten":                              {"a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error", "a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error", ""},
		"twelve":                           {"a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error k:error l:error", "c:error d:error e:error f:error g:error h:error i:error j:error k:error l:error", "a:error b:error"},
		"an update pushes no other out":    {"a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error j:error", "a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error", "j:error"},
		"the update of one that is oldest": {"a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error a:error", "b:error c:error d:error e:error f:error g:error h:error i:error j:error a:error", "a:error"},
	} {
		t.Run(name, func(t *testing.T) {
			newest, outdated := ci.Newest(strings.Fields(c.stored), parse)
			if got := strings.Join(newest, " "); got != c.newest {
				t.Errorf("newest   %s\nwant     %s", got, c.newest)
			}
			if got := strings.Join(outdated, " "); got != c.outdated {
				t.Errorf("outdated %s\nwant     %s", got, c.outdated)
			}
		})
	}
}

// TestNewestOfAPart checks that a writer that sees only some of the results deletes none
// that would be kept with all of them. Several writers can then delete while others write.
func TestNewestOfAPart(t *testing.T) {
	type entry struct {
		at int
		ci.Result
	}
	result := func(e entry) ci.Result { return e.Result }
	rapid.Check(t, func(t *rapid.T) {
		all := make([]entry, rapid.IntRange(0, 40).Draw(t, "results"))
		for i := range all {
			all[i] = entry{i, ci.Result{
				Name:   rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"),
				Status: rapid.SampledFrom([]string{ci.StatusSuccess, ci.StatusFailure}).Draw(t, "status"),
			}}
		}
		newest, outdated := ci.Newest(all, result)
		if len(newest) > ci.MaxResults || len(newest)+len(outdated) != len(all) {
			t.Fatalf("%d newest and %d outdated of %d, want at most %d newest, and all in one of them", len(newest), len(outdated), len(all), ci.MaxResults)
		}
		kept := make(map[int]bool, len(newest))
		for _, e := range newest {
			kept[e.at] = true
		}
		from := rapid.IntRange(0, len(all)).Draw(t, "from")
		to := rapid.IntRange(from, len(all)).Draw(t, "to")
		_, early := ci.Newest(all[from:to], result)
		for _, e := range early {
			if kept[e.at] {
				t.Fatalf("result %d is outdated for a reader of %d to %d, want it kept", e.at, from, to)
			}
		}
		// An early deletion changes nothing for later readers.
		rest := make([]entry, 0, len(all))
		for _, e := range all {
			deleted := false
			for _, d := range early {
				deleted = deleted || d.at == e.at
			}
			if !deleted {
				rest = append(rest, e)
			}
		}
		again, _ := ci.Newest(rest, result)
		if len(again) != len(newest) {
			t.Fatalf("%d newest after an early deletion, want %d", len(again), len(newest))
		}
		for i := range again {
			if again[i].at != newest[i].at {
				t.Fatalf("newest after an early deletion = %v, want %v", again, newest)
			}
		}
	})
}
