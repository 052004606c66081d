package bus

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func TestToken(t *testing.T) {
	for in, want := range map[string]string{
		"web":                         "web",
		"github-actions":              "github-actions",
		"My App":                      "my_app",
		"a.b>c*d":                     "a_b_c_d",
		"":                            "_",
		"ünï":                         "_n_",
		strings.Repeat("x", 65):       strings.Repeat("x", 64),
		"A" + strings.Repeat("é", 80): "a" + strings.Repeat("_", 63),
	} {
		if got := Token(in); got != want {
			t.Errorf("Token(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{TelemetrySubject("Shop Web", "network"), "telemetry.shop_web.network"},
		{CIResultSubject("github-actions", "ABC123", "", "failure"), "ci.result.github-actions.abc123._.failure"},
		{AlertSubject(alert.Alert{App: "web", Category: alert.NetworkErrors, Severity: alert.Error}), "alerts.web.network_errors.error"},
		{NoticeSubject("llm"), "notices.llm"},
		{DeliverySubject("GitHub", "72d3162e-cc78-11e3-81ab-4c9367dc0958"), "delivery.github.9514e6751b793abb198c32e333740b61"},
	} {
		if c.got != c.want {
			t.Errorf("subject = %s, want %s", c.got, c.want)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("web")
	f.Add("")
	f.Add("a.b *>\x00\xff")
	f.Fuzz(func(t *testing.T, in string) {
		got := Token(in)
		if !isToken(got) {
			t.Fatalf("Token(%q) = %q, want a token", in, got)
		}
		if again := Token(got); again != got {
			t.Fatalf("Token(%q) = %q, want it unchanged", got, again)
		}
	})
}

func BenchmarkToken(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Token("checkout-service")
	}
}

func TestKubernetesSubjects(t *testing.T) {
	pod := kube.Object{Kind: "Pod", Name: "web-1", Namespace: "shop"}
	back := &kube.Event{Type: kube.TypeWarning, Reason: "BackOff", InvolvedObject: pod}
	for want, m := range map[string]kube.Message{
		"kubernetes.dev.shop.warning.pod.backoff":                {Cluster: "dev", Event: back},
		"kubernetes.dev.shop.fault.pod.crash_loop":               {Cluster: "dev", Event: back, Fault: &kube.Fault{Kind: kube.CrashLoop}},
		"kubernetes.kind-dev._cluster.normal.node.nodeready":     {Cluster: "kind-dev", Event: &kube.Event{Type: kube.TypeNormal, Reason: "NodeReady", InvolvedObject: kube.Object{Kind: "Node", Name: "n"}}},
		"kubernetes.arn_aws_eks._cluster.watch.cluster.degraded": {Cluster: "arn:aws:eks", Watch: &kube.Watch{Degraded: true}},
		"kubernetes.dev._cluster.watch.cluster.recovered":        {Cluster: "dev", Watch: &kube.Watch{}},
	} {
		if got := KubernetesSubject(&m); got != want {
			t.Errorf("KubernetesSubject = %s, want %s", got, want)
		}
	}
	for want, got := range map[string]string{
		"kubernetes.*.*.*.*.*":              KubernetesFilter{}.Events(),
		"kubernetes.dev.shop.warning.pod.*": KubernetesFilter{Cluster: "dev", Namespace: "shop", Type: "Warning", Kind: "Pod"}.Events(),
		"kubernetes.dev._cluster.fault.*.*": KubernetesFilter{Cluster: "dev", Namespace: kube.ClusterScope}.Faults(),
		"kubernetes.dev._cluster.watch.>":   KubernetesFilter{Cluster: "dev", Namespace: "shop"}.Watch(),
	} {
		if got != want {
			t.Errorf("filter = %s, want %s", got, want)
		}
	}
}
