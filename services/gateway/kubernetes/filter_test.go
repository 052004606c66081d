package kubernetes_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

func shown(t interface{ Fatal(...any) }, names ...string) namespaces.Set {
	s, err := namespaces.New(names)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pod returns an event about the pod web-1 of shop.
func pod() *kube.Message {
	return &kube.Message{Cluster: "dev", Event: &kube.Event{
		Namespace: "shop", Timestamp: time.Date(2025, 1, 15, 12, 34, 56, 0, time.UTC), Type: kube.TypeWarning, Reason: "BackOff",
		Message: "Back-off restarting failed container", Labels: map[string]string{"app": "web", "tier": "front"},
		InvolvedObject: kube.Object{APIVersion: "v1", Kind: "Pod", Name: "web-1", Namespace: "shop"},
		Name:           "web-1.17", UID: "e1", ResourceVersion: "7",
	}}
}

func node() *kube.Message {
	m := pod()
	m.Event.Namespace, m.Event.InvolvedObject = "default", kube.Object{APIVersion: "v1", Kind: "Node", Name: "n1"}
	return m
}

func fault(kind, state string) *kube.Message {
	m := pod()
	m.Fault = &kube.Fault{ID: "f1", Kind: kind, State: state}
	return m
}

func TestMatches(t *testing.T) {
	type F = kubernetes.Filters
	for name, tt := range map[string]struct {
		mode    kubernetes.Mode
		filters F
		m       *kube.Message
		want    bool
	}{
		"its namespace":                         {kubernetes.Events, F{Namespaces: []string{"bank", "shop"}}, pod(), true},
		"another namespace":                     {kubernetes.Events, F{Namespaces: []string{"bank"}}, pod(), false},
		"a node is in none":                     {kubernetes.Events, F{Namespaces: []string{"default"}}, node(), false},
		"a node by _cluster":                    {kubernetes.Events, F{Namespaces: []string{"_cluster"}}, node(), true},
		"labels":                                {kubernetes.Events, F{LabelSelector: "app=web,tier in (front,back)"}, pod(), true},
		"other labels":                          {kubernetes.Events, F{LabelSelector: "app=web,tier!=front"}, pod(), false},
		"a label that is not there":             {kubernetes.Events, F{LabelSelector: "!canary"}, pod(), true},
		"kind in other case":                    {kubernetes.Events, F{InvolvedKind: "pod"}, pod(), true},
		"another kind":                          {kubernetes.Events, F{InvolvedKind: "Node"}, pod(), false},
		"a name":                                {kubernetes.Events, F{InvolvedName: "web-1"}, pod(), true},
		"the beginning of a name":               {kubernetes.Events, F{InvolvedName: "web"}, pod(), false},
		"the namespace involved":                {kubernetes.Events, F{InvolvedNamespace: "shop"}, pod(), true},
		"another involved":                      {kubernetes.Events, F{InvolvedNamespace: "bank"}, pod(), false},
		"a type":                                {kubernetes.Events, F{Type: "Warning"}, pod(), true},
		"another type":                          {kubernetes.Events, F{Type: "Normal"}, pod(), false},
		"the beginning of a reason":             {kubernetes.Events, F{Reason: "Back"}, pod(), true},
		"another reason":                        {kubernetes.Events, F{Reason: "off"}, pod(), false},
		"a fault is no event":                   {kubernetes.Events, F{Type: "Warning"}, fault(kube.Crash, kube.StateFiring), false},
		"an event is no fault":                  {kubernetes.Faults, F{Type: "Warning"}, pod(), false},
		"a fault":                               {kubernetes.Faults, F{Type: "Warning"}, fault(kube.Crash, kube.StateFiring), true},
		"a fault by its event's reason":         {kubernetes.Faults, F{Reason: "Back"}, fault(kube.Crash, kube.StateFiring), true},
		"a fault by its kind":                   {kubernetes.Faults, F{Reason: "crash"}, fault(kube.CrashLoop, kube.StateFiring), true},
		"a fault of another kind":               {kubernetes.Faults, F{Reason: "oom"}, fault(kube.CrashLoop, kube.StateFiring), false},
		"the end of a fault":                    {kubernetes.Faults, F{Type: "Warning"}, fault(kube.CrashLoop, kube.StateOver), false},
		"a message about the watch is no event": {kubernetes.Events, F{Namespaces: []string{"_cluster"}}, &kube.Message{Cluster: "dev", Watch: &kube.Watch{}}, false},
		"the same name in other clusters": {kubernetes.Events, F{Namespaces: []string{"shop"}}, func() *kube.Message {
			m := pod()
			m.Cluster = "Dev" // whose token is the same
			return m
		}(), false},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := kubernetes.NewFilter("dev", tt.mode, tt.filters, namespaces.Set{})
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Matches(tt.m); got != tt.want {
				t.Errorf("Matches = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestNewFilterRefuses(t *testing.T) {
	type F = kubernetes.Filters
	limited := shown(t, "shop", "_cluster")
	for name, tt := range map[string]struct {
		mode    kubernetes.Mode
		filters F
		shown   namespaces.Set
		want    string
	}{
		"no filter":                            {kubernetes.Events, F{}, namespaces.Set{}, "set at least one of namespaces"},
		"faults without a filter":              {kubernetes.Faults, F{}, namespaces.Set{}, "set at least one of namespaces"},
		"a mode":                               {"all", F{Type: "Normal"}, namespaces.Set{}, "mode must be one of events, faults"},
		"a namespace":                          {kubernetes.Events, F{Namespaces: []string{"Shop"}}, namespaces.Set{}, "namespaces must be a list"},
		"any namespace":                        {kubernetes.Events, F{Namespaces: []string{"*"}}, namespaces.Set{}, "namespaces must be a list"},
		"an empty namespace":                   {kubernetes.Events, F{Namespaces: []string{""}}, namespaces.Set{}, "namespaces must be a list"},
		"a kind":                               {kubernetes.Events, F{InvolvedKind: "v1/Pod"}, namespaces.Set{}, "involvedKind must be a kind"},
		"a kind with other letters than ASCII": {kubernetes.Events, F{InvolvedKind: "\u212aind"}, namespaces.Set{}, "involvedKind must be a kind"},
		"a type":                               {kubernetes.Events, F{Type: "warning"}, namespaces.Set{}, "type must be one of Normal, Warning"},
		"a type that no fault has":             {kubernetes.Faults, F{Type: "Normal"}, namespaces.Set{}, "type must be Warning"},
		"a selector":                           {kubernetes.Events, F{LabelSelector: "app=(web"}, namespaces.Set{}, "labelSelector must be a label selector"},
		"a long selector":                      {kubernetes.Events, F{LabelSelector: "app in (" + strings.Repeat("a,", 600) + "b)"}, namespaces.Set{}, "labelSelector must be a label selector"},
		"a long reason":                        {kubernetes.Events, F{Reason: strings.Repeat("a", 129)}, namespaces.Set{}, "reason must be"},
		"a long name":                          {kubernetes.Events, F{InvolvedName: strings.Repeat("a", 254)}, namespaces.Set{}, "involvedName must be"},
		"two namespaces":                       {kubernetes.Events, F{Namespaces: []string{"a"}, InvolvedNamespace: "b"}, namespaces.Set{}, "involvedNamespace must be one of namespaces"},
		"a namespace not shown":                {kubernetes.Events, F{Namespaces: []string{"shop", "bank"}}, limited, "namespaces must be among those that this gateway shows: shop, _cluster"},
		"an involved namespace not shown":      {kubernetes.Events, F{InvolvedNamespace: "bank"}, limited, "involvedNamespace must be one that this gateway shows: shop, _cluster"},
		"an empty selector":                    {kubernetes.Events, F{LabelSelector: " "}, namespaces.Set{}, "labelSelector must name at least one label"},
		"an invalid involved namespace":        {kubernetes.Events, F{InvolvedNamespace: "a.b"}, namespaces.Set{}, "involvedNamespace must be the name"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := kubernetes.NewFilter("dev", tt.mode, tt.filters, tt.shown); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestLimitedToNamespaces: a filter without namespaces has those that the gateway shows.
func TestLimitedToNamespaces(t *testing.T) {
	f, err := kubernetes.NewFilter("dev", kubernetes.Faults, kubernetes.Filters{}, shown(t, "shop", "bank"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bank", "shop"}, f.Filters().Namespaces); diff != "" {
		t.Fatalf("namespaces (-want +got):\n%s", diff)
	}
	m := fault(kube.Crash, kube.StateFiring)
	if !f.Matches(m) {
		t.Error("Matches of a shown namespace = false, want true")
	}
	m.Event.InvolvedObject.Namespace = "secret"
	if f.Matches(m) {
		t.Error("Matches of another namespace = true, want false")
	}
}

func words(some ...string) *rapid.Generator[string] { return rapid.SampledFrom(some) }

func genFilter(t *rapid.T) (kubernetes.Filter, bool) {
	w := kubernetes.Filters{
		Namespaces:    rapid.SliceOfN(words("shop", "bank", "_cluster", "default", "-x"), 0, 3).Draw(t, "namespaces"),
		LabelSelector: words("", "", "app=web", "app!=web", "app in (web,api)", "!app", "a b").Draw(t, "selector"),
		InvolvedKind:  words("", "", "Pod", "pod", "Node", "Cluster", "K").Draw(t, "kind"),
		InvolvedName:  words("", "", "web-1", "n1").Draw(t, "name"),
		Type:          words("", "", "Warning", "Normal").Draw(t, "type"),
		Reason:        words("", "", "Back", "B", "Oops", "crash").Draw(t, "reason"),

		InvolvedNamespace: words("", "", "", "shop", "_cluster").Draw(t, "involved"),
	}
	limit := shown(t, rapid.SliceOfNDistinct(words("shop", "_cluster", "default"), 0, 2, rapid.ID[string]).Draw(t, "shown")...)
	f, err := kubernetes.NewFilter(words("dev", "Dev/1", "dev.1").Draw(t, "cluster of the filter"), rapid.SampledFrom([]kubernetes.Mode{kubernetes.Events, kubernetes.Faults}).Draw(t, "mode"), w, limit)
	return f, err == nil
}

// genMessage returns a message that mostly has the values of the filter.
func genMessage(t *rapid.T, f kubernetes.Filter) *kube.Message {
	w := f.Filters()
	near := func(wanted, label string, others ...string) string {
		if rapid.IntRange(0, 4).Draw(t, label+" as wanted") > 0 && wanted != "" {
			return wanted
		}
		return words(others...).Draw(t, label)
	}
	m := &kube.Message{Cluster: near(f.Cluster(), "cluster", "dev", "Dev/1", "dev.1")}
	if rapid.IntRange(0, 9).Draw(t, "watch") == 0 {
		m.Watch = &kube.Watch{Degraded: rapid.Bool().Draw(t, "degraded")}
		return m
	}
	namespace := w.InvolvedNamespace
	if namespace == "" && len(w.Namespaces) > 0 {
		namespace = rapid.SampledFrom(w.Namespaces).Draw(t, "wanted namespace")
	}
	if namespace = near(namespace, "event namespace", "shop", "bank", "", "default", "Shop"); namespace == kube.ClusterScope {
		namespace = ""
	}
	m.Event = &kube.Event{
		Type: near(w.Type, "event type", "Normal", "Warning", "", "fault"), Reason: near(w.Reason, "event reason", "BackOff", "Oops", "", "Ärger"),
		Labels: map[string]string{"app": words("web", "api").Draw(t, "app")},
		InvolvedObject: kube.Object{
			Kind: near(w.InvolvedKind, "event kind", "Pod", "Node", "Cluster", "k", "K", "\u212a", ""), Name: near(w.InvolvedName, "event name", "web-1", "n1"),
			Namespace: namespace,
		},
	}
	if rapid.Bool().Draw(t, "fault") {
		m.Fault = &kube.Fault{ID: "f", Kind: rapid.SampledFrom(kube.Faults()).Draw(t, "fault kind"), State: words("firing", "over").Draw(t, "state")}
	}
	return m
}

// passes reports whether a subject matches one that may have wildcards.
func passes(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(f) == len(s)
}

// TestSubjectsPassAllMatches: a message that matches, or is about the watch, has one of the
// subjects; and no subject contains another, which the bus would refuse.
func TestSubjectsPassAllMatches(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		f, ok := genFilter(t)
		if !ok {
			t.Skip("refused")
		}
		m := genMessage(t, f)
		subjects := f.Subjects()
		on := slices.ContainsFunc(subjects, func(s string) bool { return passes(s, bus.KubernetesSubject(m)) })
		if (f.Matches(m) || f.MatchesWatch(m)) && !on {
			t.Errorf("Subjects = %q, want one that passes %s of %+v", subjects, bus.KubernetesSubject(m), m)
		}
		if f.Matches(m) {
			matched++
		}
		for i, a := range subjects {
			for j, b := range subjects {
				if i != j && passes(a, b) {
					t.Errorf("Subjects = %q: %s contains %s, want none that contains another", subjects, a, b)
				}
			}
		}
	})
	t.Logf("%d matched", matched)
	if matched == 0 {
		t.Error("no message matched, want some: the test checks nothing")
	}
}

// FuzzSelector: any selector is refused with an error about labelSelector, or is valid and
// normalized: normalizing it again changes nothing.
func FuzzSelector(f *testing.F) {
	for _, seed := range []string{"app=web", "a in (b,c),!d", "x>1", "a==b, c != d", "(", "a notin ()", "\x00", "a in (", ",", "a b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, selector string) {
		s, err := kubernetes.NewFilter("dev", kubernetes.Events, kubernetes.Filters{LabelSelector: selector, Type: "Normal"}, namespaces.Set{})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "labelSelector must") {
				t.Fatal(err)
			}
			return
		}
		again, err := kubernetes.NewFilter("dev", kubernetes.Events, s.Filters(), namespaces.Set{})
		if len(s.Filters().LabelSelector) > kubernetes.MaxSelector { // normalizing may make it longer
			return
		}
		if err != nil {
			t.Fatalf("the normalized selector %q of %q is refused: %v", s.Filters().LabelSelector, selector, err)
		}
		if got, want := again.Filters().LabelSelector, s.Filters().LabelSelector; got != want {
			t.Errorf("%q normalized twice = %q, want %q", selector, got, want)
		}
		if got, want := again.Matches(pod()), s.Matches(pod()); got != want {
			t.Errorf("%q normalized twice: Matches = %t, want %t", selector, got, want)
		}
	})
}
