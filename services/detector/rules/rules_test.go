package rules_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/rules"
)

var (
	auto        = rules.Set{Anomaly: rules.Auto, Regression: rules.AutoRegression, Noise: rules.AutoNoise}
	spec        = rules.Set{}
	statistical = rules.Set{Anomaly: rules.RateTail, Regression: rules.Confirmed, Noise: rules.Mined}
)

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name  string
		words rules.Words
		want  rules.Table
	}{
		{"nothing said", rules.Words{}, rules.Table{Default: auto}},
		{"the three at once: spec", rules.Words{Rules: []string{"spec"}}, rules.Table{Default: spec}},
		{"the three at once: statistical", rules.Words{Rules: []string{"statistical"}}, rules.Table{Default: statistical}},
		{"the three at once: auto", rules.Words{Rules: []string{"spec", "auto"}}, rules.Table{Default: auto}},
		{
			"a single one wins over the three",
			rules.Words{Rules: []string{"spec"}, Anomaly: []string{"rate-tail"}, Noise: []string{"auto"}},
			rules.Table{Default: rules.Set{Anomaly: rules.RateTail, Noise: rules.AutoNoise}},
		},
		{
			"an app's wins over both",
			rules.Words{Rules: []string{"statistical", "shop=spec"}, Regression: []string{"web=auto", "spec"}, Anomaly: []string{"shop=auto"}},
			rules.Table{Default: rules.Set{Anomaly: rules.RateTail, Regression: rules.Spec, Noise: rules.Mined}, Apps: map[string]rules.Set{
				"web":  {Anomaly: rules.RateTail, Regression: rules.AutoRegression, Noise: rules.Mined},
				"shop": {Anomaly: rules.Auto},
			}},
		},
		{
			"for all",
			rules.Words{Anomaly: []string{"rate-tail"}, Regression: []string{"confirmed"}, Noise: []string{"mined"}},
			rules.Table{Default: statistical},
		},
		{
			"the last counts",
			rules.Words{Rules: []string{"spec"}, Anomaly: []string{"rate-tail", " auto "}},
			rules.Table{Default: rules.Set{Anomaly: rules.Auto}},
		},
		{
			"an app has the rest from all, wherever that stands",
			rules.Words{Rules: []string{"spec"}, Anomaly: []string{"web=auto", "rate-tail"}, Noise: []string{"shop = mined"}, Regression: []string{"confirmed"}},
			rules.Table{
				Default: rules.Set{Anomaly: rules.RateTail, Regression: rules.Confirmed},
				Apps: map[string]rules.Set{
					"web":  {Anomaly: rules.Auto, Regression: rules.Confirmed},
					"shop": {Anomaly: rules.RateTail, Regression: rules.Confirmed, Noise: rules.Mined},
				},
			},
		},
		{
			"an app's name with a =",
			rules.Words{Rules: []string{"spec"}, Anomaly: []string{"a=b=auto"}},
			rules.Table{Apps: map[string]rules.Set{"a=b": {Anomaly: rules.Auto}}},
		},
		{
			"of an earlier release",
			rules.Words{Rules: []string{"spec"}, Anomaly: []string{"both", "web=both"}},
			rules.Table{Default: rules.Set{Anomaly: rules.Auto}, Apps: map[string]rules.Set{"web": {Anomaly: rules.Auto}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.words.Table()
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

// TestWarnings checks that what is taken for one release names its setting.
func TestWarnings(t *testing.T) {
	if got := (rules.Words{Rules: []string{"auto"}, Anomaly: []string{"rate-tail"}}).Warnings(); got != nil {
		t.Errorf("nothing is old, and yet %q", got)
	}
	got := rules.Words{Anomaly: []string{"both", "web=both"}}.Warnings()
	if len(got) != 2 {
		t.Fatalf("%q", got)
	}
	for i, value := range []string{`"both"`, `"web=both"`} {
		for _, want := range []string{"--anomaly", "TOCSIN_ANOMALY", value, "auto"} {
			if !strings.Contains(got[i], want) {
				t.Errorf("got %q, want %q in it", got[i], want)
			}
		}
	}
}

func TestTableRefuses(t *testing.T) {
	for _, tt := range []struct {
		words rules.Words
		say   []string
	}{
		{rules.Words{Rules: []string{"confirmed"}}, []string{"--rules", `"confirmed"`, "auto, spec, statistical", "APP="}},
		{rules.Words{Anomaly: []string{"ratio"}}, []string{"--anomaly", `"ratio"`, "auto, ratio3x, rate-tail", "APP="}},
		{rules.Words{Anomaly: []string{"web=ratio"}}, []string{"--anomaly", `"ratio"`}},
		{rules.Words{Regression: []string{""}}, []string{"--regression", "auto, spec, confirmed"}},
		{rules.Words{Regression: []string{"both"}}, []string{"--regression", `"both"`}},
		{rules.Words{Noise: []string{"=mined"}}, []string{"--noise", "no app"}},
	} {
		_, err := tt.words.Table()
		if err == nil {
			t.Errorf("%+v was taken", tt.words)
			continue
		}
		for _, word := range tt.say {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v: does not say %q", err, word)
			}
		}
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct {
		table rules.Table
		want  string
	}{
		{rules.Table{Default: auto}, "anomaly auto (ratio3x while an app is young, then rate-tail), regression auto (spec, then confirmed), noise auto (mined)"},
		{
			rules.Table{
				Default: rules.Set{Noise: rules.Mined},
				Apps:    map[string]rules.Set{"web": {Anomaly: rules.Auto}, "shop": {Regression: rules.Confirmed}, "same": {Noise: rules.Mined}},
			},
			"anomaly ratio3x, regression spec, noise mined; " +
				"shop: anomaly ratio3x, regression confirmed, noise spec; web: anomaly auto, regression spec, noise spec",
		},
	} {
		if got := tt.table.String(); got != tt.want {
			t.Errorf("got %s\nwant %s", got, tt.want)
		}
	}
}

func TestInForce(t *testing.T) {
	for _, tt := range []struct {
		set         rules.Set
		young, then rules.Set
	}{
		{auto, rules.Set{Noise: rules.Mined}, statistical},
		{spec, spec, spec},
		{statistical, statistical, statistical},
	} {
		for young, want := range map[bool]rules.Set{true: tt.young, false: tt.then} {
			got := rules.Set{Anomaly: tt.set.Anomaly.InForce(young), Regression: tt.set.Regression.InForce(young), Noise: tt.set.Noise.InForce()}
			if got != want {
				t.Errorf("%v, young %v: got %v, want %v", tt.set, young, got, want)
			}
		}
	}
}

func TestFor(t *testing.T) {
	table := rules.Table{Default: rules.Set{Anomaly: rules.RateTail}, Apps: map[string]rules.Set{"web": {}}}
	if got := table.For("web"); got != (rules.Set{}) {
		t.Errorf("web: %v", got)
	}
	if got := table.For("shop"); got.Anomaly != rules.RateTail {
		t.Errorf("shop: %v", got)
	}
}
