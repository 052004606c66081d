package ruleset_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

var (
	auto        = ruleset.Set{Anomaly: ruleset.Auto, Regression: ruleset.AutoRegression, Noise: ruleset.AutoNoise}
	spec        = ruleset.Set{}
	statistical = ruleset.Set{Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed, Noise: ruleset.Mined}
)

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags ruleset.Flags
		want  ruleset.Table
	}{
		{"no flags", ruleset.Flags{}, ruleset.Table{Default: auto}},
		{"--rules spec", ruleset.Flags{Rules: []string{"spec"}}, ruleset.Table{Default: spec}},
		{"--rules statistical", ruleset.Flags{Rules: []string{"statistical"}}, ruleset.Table{Default: statistical}},
		{"--rules auto", ruleset.Flags{Rules: []string{"spec", "auto"}}, ruleset.Table{Default: auto}},
		{
			"a single one wins over the three",
			ruleset.Flags{Rules: []string{"spec"}, Anomaly: []string{"rate-tail"}, Noise: []string{"auto"}},
			ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.RateTail, Noise: ruleset.AutoNoise}},
		},
		{
			"an app's wins over both",
			ruleset.Flags{Rules: []string{"statistical", "shop=spec"}, Regression: []string{"web=auto", "spec"}, Anomaly: []string{"shop=auto"}},
			ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.RateTail, Regression: ruleset.Spec, Noise: ruleset.Mined}, Apps: map[string]ruleset.Set{
				"web":  {Anomaly: ruleset.RateTail, Regression: ruleset.AutoRegression, Noise: ruleset.Mined},
				"shop": {Anomaly: ruleset.Auto},
			}},
		},
		{
			"for all",
			ruleset.Flags{Anomaly: []string{"rate-tail"}, Regression: []string{"confirmed"}, Noise: []string{"mined"}},
			ruleset.Table{Default: statistical},
		},
		{
			"the last wins",
			ruleset.Flags{Rules: []string{"spec"}, Anomaly: []string{"rate-tail", " auto "}},
			ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.Auto}},
		},
		{
			"an app has the rest from all, wherever that stands",
			ruleset.Flags{Rules: []string{"spec"}, Anomaly: []string{"web=auto", "rate-tail"}, Noise: []string{"shop = mined"}, Regression: []string{"confirmed"}},
			ruleset.Table{
				Default: ruleset.Set{Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed},
				Apps: map[string]ruleset.Set{
					"web":  {Anomaly: ruleset.Auto, Regression: ruleset.Confirmed},
					"shop": {Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed, Noise: ruleset.Mined},
				},
			},
		},
		{
			"an app's name with a =",
			ruleset.Flags{Rules: []string{"spec"}, Anomaly: []string{"a=b=auto"}},
			ruleset.Table{Apps: map[string]ruleset.Set{"a=b": {Anomaly: ruleset.Auto}}},
		},
		{
			"of an earlier release",
			ruleset.Flags{Rules: []string{"spec"}, Anomaly: []string{"both", "web=both"}},
			ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.Auto}, Apps: map[string]ruleset.Set{"web": {Anomaly: ruleset.Auto}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.flags.Table()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWarnings checks that a warning about a value of an earlier release names its setting.
func TestWarnings(t *testing.T) {
	if got := (ruleset.Flags{Rules: []string{"auto"}, Anomaly: []string{"rate-tail"}}).Warnings(); got != nil {
		t.Errorf("warnings = %q, want none", got)
	}
	got := ruleset.Flags{Anomaly: []string{"both", "web=both"}}.Warnings()
	if len(got) != 2 {
		t.Fatalf("warnings = %q, want 2", got)
	}
	for i, value := range []string{`"both"`, `"web=both"`} {
		for _, want := range []string{"--anomaly", "TOCSIN_ANOMALY", value, "auto"} {
			if !strings.Contains(got[i], want) {
				t.Errorf("warning = %q, want %q in it", got[i], want)
			}
		}
	}
}

func TestTableErrors(t *testing.T) {
	for _, tt := range []struct {
		flags ruleset.Flags
		want  []string
	}{
		{ruleset.Flags{Rules: []string{"confirmed"}}, []string{"--rules", `"confirmed"`, "auto, spec, statistical", "APP="}},
		{ruleset.Flags{Anomaly: []string{"ratio"}}, []string{"--anomaly", `"ratio"`, "auto, ratio3x, rate-tail", "APP="}},
		{ruleset.Flags{Anomaly: []string{"web=ratio"}}, []string{"--anomaly", `"ratio"`}},
		{ruleset.Flags{Regression: []string{""}}, []string{"--regression", "auto, spec, confirmed"}},
		{ruleset.Flags{Regression: []string{"both"}}, []string{"--regression", `"both"`}},
		{ruleset.Flags{Noise: []string{"=mined"}}, []string{"--noise", "no app"}},
	} {
		_, err := tt.flags.Table()
		if err == nil {
			t.Errorf("flags %+v: got no error, want one with %q", tt.flags, tt.want)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %q in it", err, want)
			}
		}
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct {
		table ruleset.Table
		want  string
	}{
		{ruleset.Table{Default: auto}, "anomaly auto (ratio3x while an app is young, then rate-tail), regression auto (spec, then confirmed), noise auto (mined)"},
		{
			ruleset.Table{
				Default: ruleset.Set{Noise: ruleset.Mined},
				Apps:    map[string]ruleset.Set{"web": {Anomaly: ruleset.Auto}, "shop": {Regression: ruleset.Confirmed}, "same": {Noise: ruleset.Mined}},
			},
			"anomaly ratio3x, regression spec, noise mined; " +
				"shop: anomaly ratio3x, regression confirmed, noise spec; web: anomaly auto, regression spec, noise spec",
		},
	} {
		if got := tt.table.String(); got != tt.want {
			t.Errorf("String() = %s\nwant %s", got, tt.want)
		}
	}
}

func TestInForce(t *testing.T) {
	for _, tt := range []struct {
		set         ruleset.Set
		young, then ruleset.Set
	}{
		{auto, ruleset.Set{Noise: ruleset.Mined}, statistical},
		{spec, spec, spec},
		{statistical, statistical, statistical},
	} {
		for young, want := range map[bool]ruleset.Set{true: tt.young, false: tt.then} {
			got := ruleset.Set{Anomaly: tt.set.Anomaly.InForce(young), Regression: tt.set.Regression.InForce(young), Noise: tt.set.Noise.InForce()}
			if got != want {
				t.Errorf("%v, young %v: got %v, want %v", tt.set, young, got, want)
			}
		}
	}
}

func TestFor(t *testing.T) {
	table := ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.RateTail}, Apps: map[string]ruleset.Set{"web": {}}}
	if got := table.For("web"); got != (ruleset.Set{}) {
		t.Errorf("For(web) = %v, want the specification's rules", got)
	}
	if got := table.For("shop"); got.Anomaly != ruleset.RateTail {
		t.Errorf("For(shop) = %v, want the default", got)
	}
}
