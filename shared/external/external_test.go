package external_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func firing() external.Alert {
	return external.Alert{
		Source: alert.SourceAlertmanager, Key: "a1b2c3d4e5f60718", Episode: "2026-01-28T14:30:00.123456789Z", State: external.StateFiring,
		Severity: alert.Error, Level: "critical", App: "checkout", Name: "HighErrorRate", Place: "checkout-7d9f",
		Summary: "too many errors", Detail: "5% of requests fail", URL: "http://prometheus/graph", Dashboard: "http://grafana/d/1",
		Runbook: "http://runbooks/1", Labels: map[string]string{"alertname": "HighErrorRate", "team": "a < b"}, GroupBy: []string{"alertname"},
		Receiver: "tocsin", StartsAt: time.Date(2026, 1, 28, 14, 30, 0, 123456789, time.UTC), Omitted: 2,
	}
}

// crashing is of a Kubernetes cluster.
func crashing() external.Alert {
	return external.Alert{
		Source: alert.SourceKubernetes, Key: "9f3c2ab1", Episode: "1", State: external.StateFiring, Severity: alert.Error, App: "web", Summary: "back-off",
		Fault: &external.Fault{
			Cluster: "dev", Namespace: "shop", Kind: "Pod", Name: "web-1", Container: "app", Fault: kube.CrashLoop, ID: "f1", Panic: true,
		},
	}
}

const goldenFault = `{"source":"kubernetes_monitor","key":"9f3c2ab1","episode":"1","state":"firing","severity":"error","app":"web","summary":"back-off",` +
	`"fault":{"cluster":"dev","namespace":"shop","kind":"Pod","name":"web-1","container":"app","fault":"crash_loop","id":"f1","panic":true}}`

const golden = `{"source":"alertmanager","key":"a1b2c3d4e5f60718","episode":"2026-01-28T14:30:00.123456789Z","state":"firing",` +
	`"severity":"error","level":"critical","app":"checkout","name":"HighErrorRate","place":"checkout-7d9f",` +
	`"summary":"too many errors","detail":"5% of requests fail","url":"http://prometheus/graph","dashboard":"http://grafana/d/1",` +
	`"runbook":"http://runbooks/1","labels":{"alertname":"HighErrorRate","team":"a < b"},"group_by":["alertname"],` +
	`"receiver":"tocsin","starts_at":"2026-01-28T14:30:00.123456789Z","omitted":2}`

func TestForm(t *testing.T) {
	for golden, a := range map[string]external.Alert{golden: firing(), goldenFault: crashing()} {
		data, err := external.Append([]byte("["), &a)
		if err != nil || string(data) != "["+golden {
			t.Fatalf("Append = %s, %v, want [%s", data, err, golden)
		}
		got, err := external.DecodeMessage(append(data, ']'))
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], a) {
			t.Fatalf("DecodeMessage = %+v, %v, want %+v", got, err, a)
		}
	}
}

func TestValidate(t *testing.T) {
	labels := map[string]string{}
	for i := range external.MaxLabels + 1 {
		labels[strings.Repeat("a", i)] = ""
	}
	for field, change := range map[string]func(a *external.Alert){
		"source":    func(a *external.Alert) { a.Source = "nagios" },
		"key":       func(a *external.Alert) { a.Key = "" },
		"episode":   func(a *external.Alert) { a.Episode = "a b" },
		"state":     func(a *external.Alert) { a.State = "pending" },
		"severity":  func(a *external.Alert) { a.Severity = "critical" },
		"labels":    func(a *external.Alert) { a.Labels = labels },
		"group_by":  func(a *external.Alert) { a.GroupBy = make([]string, external.MaxLabels+1) },
		"starts_at": func(a *external.Alert) { a.StartsAt = time.Unix(1<<40, 0) },
		"ends_at":   func(a *external.Alert) { a.EndsAt = time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)) },
		"omitted":   func(a *external.Alert) { a.Omitted = -1 },

		"fault":         func(a *external.Alert) { a.Fault = nil },
		"fault.cluster": func(a *external.Alert) { a.Fault.Cluster = "" },
		"fault.kind":    func(a *external.Alert) { a.Fault.Kind = "" },
		"fault.name":    func(a *external.Alert) { a.Fault.Name = "" },
		"fault.fault":   func(a *external.Alert) { a.Fault.Fault = "" },
		"fault.id":      func(a *external.Alert) { a.Fault.ID = strings.Repeat("a", external.MaxKey+1) },
	} {
		a := crashing()
		change(&a)
		var wrong *external.FieldError
		if err := a.Validate(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("Validate with a wrong %s = %v, want an error of that field", field, err)
		}
	}
	foreign := firing()
	foreign.Fault = crashing().Fault
	if err := foreign.Validate(); err == nil {
		t.Error("Validate with a fault of another source = nil, want an error")
	}
	for key, want := range map[string]bool{"": true, "a1": true, "2026-01-28T14:30:00.1+01:00": true, "a_b": true, "ä": false, "a/b": false, "a`": false, "[": false, "a\n": false,
		strings.Repeat("a", external.MaxKey): true, strings.Repeat("a", external.MaxKey+1): false} {
		if external.IsKey(key) != want {
			t.Errorf("IsKey(%q) = %t, want %t", key, !want, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, in := range []string{"", "null", "{}", "[", "[1]", `[{}]`, "[" + golden + ",{}]", "[" + golden + "]x"} {
		if got, err := external.DecodeMessage([]byte(in)); err == nil {
			t.Errorf("DecodeMessage(%s) = %+v, want an error", in, got)
		}
	}
	if got, err := external.DecodeMessage([]byte("[]")); err != nil || len(got) != 0 {
		t.Errorf("DecodeMessage([]) = %+v, %v, want none", got, err)
	}
}

// FuzzDecodeMessage checks that alerts that were read are the same after they are written and read
// again.
func FuzzDecodeMessage(f *testing.F) {
	f.Add([]byte("[" + golden + "]"))
	f.Add([]byte("[" + goldenFault + "," + golden + "]"))
	f.Add([]byte(`[{"source":"alertmanager","key":"k","state":"resolved","severity":"info","ends_at":"0001-01-01T00:00:00+01:00"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		alerts, err := external.DecodeMessage(data)
		if err != nil {
			return
		}
		out := []byte{'['}
		for i := range alerts {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = external.Append(out, &alerts[i]); err != nil {
				t.Fatal(err)
			}
		}
		again, err := external.DecodeMessage(append(out, ']'))
		if err != nil || len(again) != len(alerts) {
			t.Fatalf("DecodeMessage of %s = %d alerts, %v, want %d", out, len(again), err, len(alerts))
		}
		more := []byte{'['}
		for i := range again {
			if i > 0 {
				more = append(more, ',')
			}
			if more, err = external.Append(more, &again[i]); err != nil {
				t.Fatal(err)
			}
		}
		if string(more) != string(out) {
			t.Fatalf("written again = %s, want %s", more, out)
		}
	})
}
