package rules_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/rules"
)

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name  string
		words rules.Words
		want  rules.Table
	}{
		{"nothing said", rules.Words{}, rules.Table{}},
		{
			"for all",
			rules.Words{Anomaly: []string{"rate-tail"}, Regression: []string{"confirmed"}, Noise: []string{"mined"}},
			rules.Table{Default: rules.Set{Anomaly: rules.RateTail, Regression: rules.Confirmed, Noise: rules.Mined}},
		},
		{
			"the last counts",
			rules.Words{Anomaly: []string{"rate-tail", " both "}},
			rules.Table{Default: rules.Set{Anomaly: rules.Both}},
		},
		{
			"an app has the rest from all, wherever that stands",
			rules.Words{Anomaly: []string{"web=both", "rate-tail"}, Noise: []string{"shop = mined"}, Regression: []string{"confirmed"}},
			rules.Table{
				Default: rules.Set{Anomaly: rules.RateTail, Regression: rules.Confirmed},
				Apps: map[string]rules.Set{
					"web":  {Anomaly: rules.Both, Regression: rules.Confirmed},
					"shop": {Anomaly: rules.RateTail, Regression: rules.Confirmed, Noise: rules.Mined},
				},
			},
		},
		{
			"an app's name with a =",
			rules.Words{Anomaly: []string{"a=b=both"}},
			rules.Table{Apps: map[string]rules.Set{"a=b": {Anomaly: rules.Both}}},
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

func TestTableRefuses(t *testing.T) {
	for _, tt := range []struct {
		words rules.Words
		say   []string
	}{
		{rules.Words{Anomaly: []string{"ratio"}}, []string{"--anomaly", `"ratio"`, "ratio3x, rate-tail, both", "APP="}},
		{rules.Words{Anomaly: []string{"web=ratio"}}, []string{"--anomaly", `"ratio"`}},
		{rules.Words{Regression: []string{""}}, []string{"--regression", "spec, confirmed"}},
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
	table := rules.Table{
		Default: rules.Set{Noise: rules.Mined},
		Apps:    map[string]rules.Set{"web": {Anomaly: rules.Both}, "shop": {Regression: rules.Confirmed}, "same": {Noise: rules.Mined}},
	}
	const want = "anomaly ratio3x, regression spec, noise mined; " +
		"shop: anomaly ratio3x, regression confirmed, noise spec; web: anomaly both, regression spec, noise spec"
	if got := table.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
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
