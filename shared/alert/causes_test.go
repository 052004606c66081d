package alert_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// commit is one of a CI result, and short what a release has of it.
	commit = "9f3c2ab1d2e3f405162738495a6b7c8d9e0f1a2b"
	short  = "web@9f3c2ab"
)

// finding is an alert with what it names: alternately a key of its context and the
// value.
func finding(id string, c alert.Category, s alert.Severity, after time.Duration, names ...string) alert.Alert {
	a := made(id, c, s, after)
	a.Context = map[string]any{}
	for i := 0; i < len(names); i += 2 {
		a.Context[names[i]] = names[i+1]
	}
	return a
}

func request(id string, after time.Duration, names ...string) alert.Alert {
	return finding(id, alert.NetworkErrors, alert.Error, after, names...)
}

func failure(id string, after time.Duration, names ...string) alert.Alert {
	return finding(id, alert.Errors, alert.Error, after, names...)
}

func slow(id string, after time.Duration, names ...string) alert.Alert {
	return finding(id, alert.Regression, alert.Warning, after, names...)
}

func run(id string, s alert.Severity, after time.Duration, commit string) alert.Alert {
	a := finding(id, alert.CI, s, after, alert.CommitKey, commit)
	a.App = "default"
	return a
}

func of(app string, a alert.Alert) alert.Alert { a.App = app; return a }

func saying(detail string, a alert.Alert) alert.Alert { a.Detail = detail; return a }

func ending(id string, a alert.Alert) alert.Alert { a.Resolves = id; return a }

func over(a alert.Alert) alert.Alert { a.Resolved = true; return a }

// grouped writes alerts in their order: a cause with the symptoms in brackets that
// follow it, and others with the cause that they are under.
func grouped(t interface{ Fatalf(string, ...any) }, alerts []alert.Alert) string {
	under := map[string]int{}
	for _, a := range alerts {
		under[a.InhibitedBy]++
	}
	var b strings.Builder
	for i := 0; i < len(alerts); i++ {
		first := alerts[i]
		b.WriteString(" " + first.ID)
		if first.InhibitedBy != "" {
			fmt.Fprintf(&b, "<%s", first.InhibitedBy)
		}
		if first.Symptoms == 0 {
			continue
		}
		if under[first.ID] != first.Symptoms {
			t.Fatalf("%s has Symptoms = %d, want %d", first.ID, first.Symptoms, under[first.ID])
		}
		var follow []string
		for i+1 < len(alerts) && alerts[i+1].InhibitedBy == first.ID {
			i++
			follow = append(follow, alerts[i].ID)
		}
		if len(follow) > 0 {
			fmt.Fprintf(&b, "[%s]", strings.Join(follow, " "))
		}
	}
	return strings.TrimPrefix(b.String(), " ")
}

// TestCauses: what belongs together, and what only looks like it.
func TestCauses(t *testing.T) {
	const s = time.Second
	cart := []string{alert.PageKey, "/cart"}
	api := []string{alert.EndpointKey, "POST /api/cart"}
	both := slices.Concat(api, cart)
	deploy := []string{alert.DeployKey, short, alert.ReleaseKey, short}
	spike := finding("S", alert.Anomaly, alert.Error, s, slices.Concat(deploy, []string{alert.SignalKey, alert.SignalRequests})...)
	for _, c := range []struct {
		name string
		in   []alert.Alert
		want string
		// reason is that of the first cause.
		reason string
	}{
		// Names that link alerts.
		{"an error that quotes the request's path", []alert.Alert{request("N", 0, api...), saying("POST http://localhost:3000/api/cart?x=1 failed", failure("E", s))},
			"N[E]", "2 alerts of web within 10 s name /api/cart; the failed request came first"},
		{"one that quotes a path with an id", []alert.Alert{request("N", 0, alert.EndpointKey, "GET /users/:id"), saying("no user at /users/42.", failure("E", s))},
			"N[E]", "2 alerts of web within 10 s name /users/:id; the failed request came first"},
		{"in its context", []alert.Alert{request("N", 0, api...), failure("E", s, "source", "http://localhost/api/cart:1:2"), failure("F", s, "request", "/api/cart")}, "E N[F]", ""},
		{"another path", []alert.Alert{request("N", 0, api...), saying("POST /api/carts failed", failure("E", s))}, "E N", ""},
		{"the page on which the request was made", []alert.Alert{request("N", 0, both...), slow("R", s, cart...)},
			"N[R]", "2 alerts of web within 10 s name /cart; the failed request came first"},
		{"the page that was requested", []alert.Alert{request("N", 0, alert.EndpointKey, "GET /cart"), slow("R", s, cart...)}, "N[R]", ""},
		{"a page that is posted to itself", []alert.Alert{request("N", 0, alert.EndpointKey, "POST /cart"), slow("R", s, cart...)}, "N[R]", ""},
		{"another page", []alert.Alert{request("N", 0, both...), slow("R", s, alert.PageKey, "/")}, "N R", ""},
		{"another app", []alert.Alert{request("N", 0, both...), of("shop", slow("R", s, cart...))}, "N R", ""},
		{"names nothing", []alert.Alert{request("N", 0), failure("E", s), slow("R", s)}, "E N R", ""},
		{"a deploy", []alert.Alert{failure("E", 0, deploy...), slow("R", s, deploy...)},
			"E[R]", "2 alerts of web within 10 s name release web@9f3c2ab; the error came first"},
		{"a release that is no deploy", []alert.Alert{failure("E", 0, alert.ReleaseKey, short), slow("R", s, alert.ReleaseKey, short)}, "E R", ""},
		{"CI, an error and a page of its commit", []alert.Alert{run("C", alert.Error, 0, commit), failure("E", s, alert.ReleaseKey, short), slow("R", 2*s, alert.ReleaseKey, commit)},
			"C[E R]", "3 alerts of web within 10 s name commit 9f3c2ab1d2e3; the failed CI run came first"},
		{"a CI success that ends a failure", []alert.Alert{ending("F", run("C", alert.Info, 0, commit)), failure("E", s, alert.ReleaseKey, short)},
			"C[E]", "2 alerts of web within 10 s name commit 9f3c2ab1d2e3; the CI run came first"},
		{"CI and two apps", []alert.Alert{run("C", alert.Error, 0, commit), failure("E", s, alert.ReleaseKey, short), of("shop", failure("F", 2*s, alert.ReleaseKey, commit[:8]))},
			"C[F E]", "3 alerts of 2 apps within 10 s name commit 9f3c2ab1d2e3; the failed CI run came first"},
		{"another commit", []alert.Alert{run("C", alert.Error, 0, commit), failure("E", s, alert.ReleaseKey, "web@1234567")}, "E C", ""},
		{"CI that passed: what it deployed", []alert.Alert{run("C", alert.Info, 0, commit), failure("E", s, alert.ReleaseKey, short)},
			"C[E]", "2 alerts of web within 10 s name commit 9f3c2ab1d2e3; the CI run came first"},
		{"CI quotes a path", []alert.Alert{saying("POST /api/cart: 500", run("C", alert.Error, 0, commit)), request("N", s, api...)}, "N C", ""},
		{"two apps of one commit without its CI result", []alert.Alert{request("N", 0, alert.ReleaseKey, short), of("shop", failure("E", s, alert.ReleaseKey, short)), run("C", alert.Error, 20*s, commit)}, "C E N", ""},

		// Which is the cause.
		{"the kind comes before the time", []alert.Alert{slow("R", 0, cart...), failure("E", s, cart...), request("N", 2*s, both...)},
			"N[E R]", "3 alerts of web within 10 s name /cart; the failed request is the likely cause"},
		{"CI over everything", []alert.Alert{request("N", 0, append(both, deploy...)...), failure("E", s, append(cart, deploy...)...), run("C", alert.Error, 2*s, commit)},
			"C[E N]", "3 alerts of web within 10 s name commit 9f3c2ab1d2e3; the failed CI run is the likely cause"},
		{"what was blocked before the error", []alert.Alert{failure("E", s, cart...), finding("B", alert.Security, alert.Warning, 0, cart...)}, "E<B B", ""},
		{"the person comes last", []alert.Alert{finding("U", alert.UserFrustration, alert.Warning, 0, cart...), slow("R", s, cart...)},
			"R[U]", "2 alerts of web within 10 s name /cart; the slower page is the likely cause"},
		{"a spike of requests is one", []alert.Alert{spike, failure("E", 2*s, deploy...)}, "S[E]", ""},
		{"a threshold is as an error", []alert.Alert{finding("T", alert.Threshold, alert.Error, 0, deploy...), slow("R", s, deploy...)}, "T[R]", ""},
		{"CI and a fault of its version", []alert.Alert{run("C", alert.Info, 0, commit), finding("K", alert.Kubernetes, alert.Error, s, alert.ReleaseKey, short)},
			"C[K]", "2 alerts of web within 10 s name commit 9f3c2ab1d2e3; the CI run came first"},
		{"a request and the crash that it brought", []alert.Alert{request("N", s, both...), saying("panic: POST /api/cart", finding("K", alert.Kubernetes, alert.Error, 0))},
			"N[K]", "2 alerts of web within 10 s name /api/cart; the failed request is the likely cause"},
		{"a fault of a fresh release", []alert.Alert{finding("K", alert.Kubernetes, alert.Error, 0, deploy...), slow("R", s, deploy...)},
			"K[R]", "2 alerts of web within 10 s name release web@9f3c2ab; the fault in the cluster came first"},
		{"a fault of the app alone", []alert.Alert{finding("K", alert.Kubernetes, alert.Error, 0), request("N", s, both...), failure("E", s, alert.ReleaseKey, short)}, "N E K", ""},
		{"of equals the most severe", []alert.Alert{finding("W", alert.NetworkErrors, alert.Warning, 0, both...), request("N", s, both...), slow("R", 2*s, cart...)}, "N[R] W", ""},
		{"of equals the earliest", []alert.Alert{request("N", 0, both...), request("M", s, cart...), slow("R", 2*s, cart...)}, "M N[R]", ""},
		{"of equals at once the first by id", []alert.Alert{request("N", 0, both...), request("M", 0, cart...), slow("R", 2*s, cart...)}, "N M[R]", ""},
		{"the same endpoint before the same page", []alert.Alert{request("M", 0, alert.EndpointKey, "GET /other", alert.PageKey, "/cart"), request("N", s, both...), saying("POST /api/cart", failure("E", 2*s, cart...))}, "N[E] M", ""},

		// Alerts that explain nothing.
		{"one alone", []alert.Alert{request("N", 0, both...)}, "N", ""},
		{"two requests to one endpoint", []alert.Alert{request("N", 0, both...), request("M", s, both...)}, "M N", ""},
		{"two errors of one page", []alert.Alert{failure("E", 0, cart...), failure("F", s, cart...)}, "F E", ""},
		{"two vitals of one load", []alert.Alert{slow("R", 0, cart...), slow("Q", 0, cart...)}, "R Q", ""},
		{"two jobs of one commit", []alert.Alert{run("C", alert.Error, 0, commit), run("D", alert.Error, s, commit)}, "D C", ""},
		{"another request on the page stands by itself", []alert.Alert{request("N", 0, both...), request("M", s, cart...), failure("E", 2*s, cart...)}, "N[E] M", ""},
		{"an end", []alert.Alert{request("N", 0, both...), over(slow("R", s, cart...))}, "N R", ""},
		{"a cause that is over", []alert.Alert{over(request("N", 0, both...)), slow("R", s, cart...)}, "N R", ""},
		{"noise", []alert.Alert{request("N", 0, both...), finding("X", alert.Noise, alert.Info, s, cart...)}, "N X", ""},
		{"of a newer detector", []alert.Alert{request("N", 0, both...), finding("X", "weather", alert.Info, s, cart...)}, "N X", ""},
		{"without an id", []alert.Alert{request("", 0, both...), failure("E", s, cart...), slow("R", s, cart...)}, "E  R<E", ""},

		// How far apart.
		{"10 s, inclusive", []alert.Alert{request("N", 0, both...), slow("R", 10*s, cart...)}, "N[R]", ""},
		{"over 10 s", []alert.Alert{request("N", 0, both...), slow("R", 10*s+time.Millisecond, cart...)}, "N R", ""},
		{"10 s before it", []alert.Alert{slow("R", 0, cart...), request("N", 10*s, both...)}, "N[R]", ""},
		{"by way of another", []alert.Alert{request("N", 0, api...), saying("/api/cart", failure("E", s, cart...)), slow("R", 2*s, cart...)},
			"N[E R]", "3 alerts of web within 10 s name /api/cart or /cart; the failed request came first"},
		{"by way of another, but too far from the cause", []alert.Alert{request("N", 0, api...), saying("/api/cart", failure("E", 8*s, cart...)), slow("R", 12*s, cart...)}, "N[E] R", ""},
		{"two groups", []alert.Alert{
			request("N", 0, both...), slow("R", s, cart...),
			failure("E", 2*s, alert.PageKey, "/pay"), slow("Q", 3*s, alert.PageKey, "/pay"),
		}, "E N Q<E R<N", ""},

		// Where it stands.
		{"where its first would", []alert.Alert{run("C", alert.Info, 0, commit), failure("E", 3*s, alert.ReleaseKey, short), failure("F", 9*s), slow("R", s, alert.ReleaseKey, short), made("W", alert.Threshold, alert.Warning, 5*s)},
			"F C[E R] W", ""},
		{"symptoms that are less severe, after all that is more", []alert.Alert{failure("F", -s), request("N", 0, both...), failure("E", s, cart...), slow("R", 2*s, cart...), made("W", alert.Threshold, alert.Warning, 3*s)},
			"N[E] F W R<N", ""},
		{"a cause that is less severe, before what is as severe", []alert.Alert{finding("N", alert.NetworkErrors, alert.Warning, 0, both...), failure("E", s, cart...), slow("R", 2*s, cart...), made("W", alert.Threshold, alert.Warning, 3*s)},
			"E<N W N[R]", ""},
	} {
		got := alert.Digest(c.in)
		if order := grouped(t, got); order != c.want {
			t.Errorf("%s: got %s, want %s", c.name, order, c.want)
			continue
		}
		i := slices.IndexFunc(got, func(a alert.Alert) bool { return a.Symptoms > 0 })
		if c.reason != "" && got[i].Reason != c.reason {
			t.Errorf("%s: reason = %q, want %q", c.name, got[i].Reason, c.reason)
		}
		if i >= 0 && got[i].Reason == "" {
			t.Errorf("%s: no reason, want one", c.name)
		}
	}
}

// TestBlockWithACause is what an agent reads of a deploy that went wrong.
func TestBlockWithACause(t *testing.T) {
	const s = time.Second
	page := []string{alert.PageKey, "/cart", alert.ReleaseKey, short}
	n := request("N", 2*s, append(page, alert.EndpointKey, "POST /api/cart")...)
	n.Title, n.Detail, n.URL = "Server error: POST /api/cart → 500", "Request failed with Internal Server Error", "http://localhost:3000/api/cart"
	e := failure("E", 3*s, page...)
	e.Title, e.Detail, e.URL = "New error: cart is undefined", "cart is undefined", "http://localhost:3000/cart"
	r := slow("R", 4*s, page...)
	r.Title, r.Detail, r.URL = "LCP regressed 34% on /cart", "LCP 3350 ms, baseline 2500 ms (20 loads)", "http://localhost:3000/cart"
	c := run("C", alert.Error, 0, commit)
	c.Title, c.Detail, c.URL = "CI failure: deploy on main", "1 of 3 pods is ready", "https://ci.example/run/1"
	other := made("X", alert.Threshold, alert.Error, 5*s)
	other.Title, other.Detail = "Memory is over 90% of its limit", "950 of 1000 MB"
	block, err := alert.Block(alert.Digest([]alert.Alert{r, n, e, other, c}))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "cause.txt", block)
}

// TestCauseOfMany: the reason has the first names of a group, and its length is bounded.
func TestCauseOfMany(t *testing.T) {
	long := "/" + strings.Repeat("\u00fc", 200)
	in := []alert.Alert{
		of(long, request("N", 0, alert.EndpointKey, "GET "+long, alert.PageKey, "/a")),
		of(long, failure("E", time.Second, alert.PageKey, "/a", alert.DeployKey, "2")),
		of(long, failure("F", time.Second, alert.PageKey, "/b", alert.DeployKey, "2")),
		of(long, slow("R", time.Second, alert.PageKey, "/b")),
	}
	got := alert.Digest(in)
	n := slices.IndexFunc(got, func(a alert.Alert) bool { return a.Symptoms > 0 })
	const want = "\u2026 within 10 s name /a, release 2 or 1 more; the failed request came first"
	if reason := got[n].Reason; len(reason) > 400 || !strings.HasSuffix(reason, want) {
		t.Errorf("%s: %s, want %s", grouped(t, got), reason, want)
	}
}

// TestDelivered: a symptom that is raised after its cause was delivered is recognized, within
// CauseWindow.
func TestDelivered(t *testing.T) {
	const s = time.Second
	both := []string{alert.EndpointKey, "POST /api/cart", alert.PageKey, "/cart"}
	deliver := func(c *alert.Causes, alerts ...alert.Alert) string {
		pending := make([]alert.Pending, len(alerts))
		for i, a := range alerts {
			pending[i].Alert = a
		}
		digest := c.Digest(pending)
		if diff := cmp.Diff(digest, c.Digest(pending)); diff != "" {
			t.Errorf("Digest without Delivered changed the next digest (-first +second):\n%s", diff)
		}
		c.Delivered(digest)
		return grouped(t, alert.Alerts(digest))
	}
	page := []string{alert.PageKey, "/cart"}
	for _, tt := range []struct {
		name  string
		steps [][]alert.Alert
		want  string
	}{
		{"a delivered cause", [][]alert.Alert{{request("N", 0, both...)}, {slow("R", 10*s, page...)}}, "N | R<N"},
		{"too long ago", [][]alert.Alert{{request("N", 0, both...)}, {slow("R", 10*s+1, page...)}}, "N | R"},
		{"with others after it", [][]alert.Alert{{request("N", 0, both...)}, {failure("X", 15*s, alert.PageKey, "/x")}, {slow("R", 10*s, page...)}}, "N | X | R"},
		{"a group continues", [][]alert.Alert{{request("N", 0, both...), failure("E", s, page...)}, {slow("R", 2*s, page...)}}, "N[E] | R<N"},
		{"a symptom is no cause", [][]alert.Alert{{request("N", 0, both...), failure("E", 8*s, page...)}, {slow("R", 12*s, page...)}}, "N[E] | R"},
		{"a symptom leads to the cause", [][]alert.Alert{{request("N", 0, alert.EndpointKey, "POST /api/cart"), saying("/api/cart", failure("E", s, page...))}, {slow("R", 9*s, page...)}}, "N[E] | R<N"},
		{"the cause comes last", [][]alert.Alert{{slow("R", 0, page...)}, {request("N", s, both...)}}, "R | N"},
		{"and more with it", [][]alert.Alert{{slow("R", 0, page...)}, {request("N", s, both...), failure("E", s, page...)}}, "R | N[E]"},
		{"the cause that was delivered first", [][]alert.Alert{{request("N", 0, both...)}, {request("M", s, both...), failure("E", 2*s, page...)}}, "N | E<N M"},
		{"a resolution is no cause", [][]alert.Alert{{over(request("N", 0, both...))}, {failure("E", 2*s, page...)}}, "N | E"},
	} {
		var c alert.Causes
		var got []string
		for _, step := range tt.steps {
			got = append(got, deliver(&c, step...))
		}
		if order := strings.Join(got, " | "); order != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, order, tt.want)
		}
	}

	var c alert.Causes
	deliver(&c, request("N", 0, both...))
	for i := range 100 { // the earliest are forgotten
		deliver(&c, failure(fmt.Sprint("X", i), s, alert.PageKey, fmt.Sprint("/", i)))
	}
	if got := deliver(&c, slow("R", 2*s, page...), slow("Q", 2*s, alert.PageKey, "/99")); got != "R Q<X99" {
		t.Errorf("after 100 others: %s, want R Q<X99", got)
	}
}

// TestSince: the time of the first of merged alerts counts.
func TestSince(t *testing.T) {
	page := []string{alert.PageKey, "/cart"}
	n := alert.Pending{Alert: request("N", time.Minute, page...), Since: start}
	e := alert.Pending{Alert: failure("E", time.Second, page...)}
	later := alert.Pending{Alert: failure("F", 58*time.Second, page...)}
	digest := new(alert.Causes).Digest([]alert.Pending{n, e, later})
	if got := grouped(t, alert.Alerts(digest)); got != "N[E] F" {
		t.Errorf("Digest = %s, want N[E] F", got)
	}
	r := alert.Pending{Alert: slow("R", 30*time.Second, page...), Since: start.Add(28 * time.Second)}
	a := alert.Pending{Alert: made("A", alert.Anomaly, alert.Error, 31*time.Second), Since: start.Add(5 * time.Second)}
	digest = new(alert.Causes).Digest([]alert.Pending{n, r, a})
	if got := grouped(t, alert.Alerts(digest)); got != "N[R]" {
		t.Errorf("Digest = %s, want N[R]: a joined alert began with the first of both", got)
	}
}

// sorted returns alerts as they are shown, without a join.
func sorted(alerts []alert.Alert) []alert.Alert {
	pending := make([]alert.Pending, len(alerts))
	for i, a := range alerts {
		pending[i].Alert = a
	}
	return alert.Alerts(new(alert.Causes).Group(pending))
}

// drawn returns random pending alerts. Many share a name.
func drawn(t *rapid.T) []alert.Alert {
	alerts := make([]alert.Alert, rapid.IntRange(0, 30).Draw(t, "alerts"))
	for i := range alerts {
		a := finding(
			fmt.Sprint("id", i), rapid.SampledFrom(append(alert.Categories(), "weather")).Draw(t, "category"),
			rapid.SampledFrom(alert.Severities()).Draw(t, "severity"), time.Duration(rapid.IntRange(0, 25).Draw(t, "second"))*time.Second,
		)
		a.App = rapid.SampledFrom([]string{"web", "shop"}).Draw(t, "app")
		for _, of := range []struct {
			key    string
			values []string
		}{
			{alert.EndpointKey, []string{"", "", "GET /a", "POST /a", "GET /b/:id"}},
			{alert.PageKey, []string{"", "/a", "/c"}},
			{alert.DeployKey, []string{"", "", "", short}},
			{alert.ReleaseKey, []string{"", short, "1.2"}},
			{alert.CommitKey, []string{"", commit}},
		} {
			if value := rapid.SampledFrom(of.values).Draw(t, of.key); value != "" {
				a.Context[of.key] = value
			}
		}
		a.Detail = rapid.SampledFrom([]string{"", "/a failed", "see http://x/b/7"}).Draw(t, "detail")
		a.Resolved = rapid.IntRange(0, 9).Draw(t, "resolved") == 0
		a.Seq = uint64(rapid.IntRange(0, 40).Draw(t, "seq"))
		alerts[i] = a
	}
	return alerts
}

// TestCausesProperties checks that grouping neither loses nor doubles an alert, changes only the
// order and the marks, and is idempotent. Alerts without a group keep their order, as do those
// under one cause. The most severe come first, but for the symptoms of a CI result.
func TestCausesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		before := fmt.Sprint(in)
		got := sorted(in)
		if fmt.Sprint(in) != before {
			t.Fatalf("input after grouping = %v, want %s", in, before)
		}
		if again := sorted(got); !reflect.DeepEqual(again, got) {
			t.Fatalf("grouped again = %s, want %s", grouped(t, again), grouped(t, got))
		}
		grouped(t, got)
		nameless := slices.Clone(in)
		for i := range nameless {
			nameless[i].Context, nameless[i].Detail = map[string]any{alert.SignalKey: "x"}, ""
		}
		order := map[string]int{}
		for i, a := range sorted(nameless) {
			order[a.ID] = i
			if a.InhibitedBy != "" || a.Symptoms != 0 || a.Reason != "" {
				t.Fatalf("alert without a name = %+v, want no cause, symptoms or reason", a)
			}
		}
		if len(got) != len(order) {
			t.Fatalf("%d alerts grouped, want %d", len(got), len(order))
		}
		byID := map[string]alert.Alert{}
		for _, a := range got {
			byID[a.ID] = a
		}
		if len(byID) != len(order) {
			t.Fatalf("%d ids grouped, want %d", len(byID), len(order))
		}
		last, lastUnder, seen := -1, map[string]int{}, map[string]bool{}
		severity := alert.Error.Rank()
		for _, a := range got {
			at, known := order[a.ID]
			if !known {
				t.Fatalf("got alert %s, want only those of the input", a.ID)
			}
			seen[a.ID] = true
			cause, under := byID[a.InhibitedBy]
			if a.InhibitedBy != "" {
				if !under || a.IsResolution() || cause.IsResolution() || cause.App != a.App && cause.Category != alert.CI {
					t.Fatalf("%+v has the cause %+v, want an open alert of its app or a CI result", a, cause)
				}
				if !seen[cause.ID] && cause.Severity.Rank() >= a.Severity.Rank() {
					t.Fatalf("%s stands before its cause, want it after", a.ID)
				}
				if at < lastUnder[cause.ID] {
					t.Fatalf("%s is out of order under its cause, want the order without groups", a.ID)
				}
				lastUnder[cause.ID] = at
			}
			if cause.Category == alert.CI || a.Category == alert.CI && a.Symptoms > 0 {
				continue // they stand together
			}
			if a.Severity.Rank() > severity {
				t.Fatalf("%s stands after a less severe alert, want it before", a.ID)
			}
			severity = a.Severity.Rank()
			if a.InhibitedBy == "" && a.Symptoms == 0 {
				if at < last {
					t.Fatalf("%s is out of order, want the order without groups", a.ID)
				}
				last = at
			}
		}
	})
}

// full50 is an inbox full of alerts with much in common and long texts.
func full50() []alert.Pending {
	all := make([]alert.Pending, 50)
	for i := range all {
		c := []alert.Category{alert.NetworkErrors, alert.Errors, alert.Errors, alert.Regression, alert.UserFrustration}[i%5]
		a := finding(fmt.Sprint("id", i), c, alert.Error, time.Duration(i%10)*time.Second, alert.PageKey, fmt.Sprint("/page/", i%7), alert.ReleaseKey, short, alert.DeployKey, short)
		if c == alert.NetworkErrors {
			a.Context[alert.EndpointKey] = fmt.Sprintf("GET /api/%d/:id/carts", i)
		}
		a.Detail = strings.Repeat(fmt.Sprintf("GET http://localhost:3000/api/%d/42/carts failed, ", i/5*5), 40)
		all[i].Alert = a
	}
	all[49].Alert = run("C", alert.Error, 0, commit)
	return all
}

// BenchmarkDigest50 digests a full inbox, with nothing and with much in common, and records
// one as delivered.
func BenchmarkDigest50(b *testing.B) {
	much := full50()
	nothing := full50()
	for i := range nothing {
		nothing[i].Context = nil
	}
	for name, pending := range map[string][]alert.Pending{"nothing in common": nothing, "much in common": much} {
		b.Run(name, func(b *testing.B) {
			var c alert.Causes
			c.Delivered(much)
			b.ReportAllocs()
			for b.Loop() {
				c.Digest(pending)
			}
		})
	}
	b.Run("delivered", func(b *testing.B) {
		var c alert.Causes
		b.ReportAllocs()
		for b.Loop() {
			c.Delivered(much)
		}
	})
}
