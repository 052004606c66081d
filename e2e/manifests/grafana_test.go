package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// leftOut has the reason for each metric of Tocsin that no panel shows.
var leftOut = map[string]string{}

// panel is a panel of a dashboard.
type panel struct {
	Title   string
	Type    string
	ID      int `json:"id"`
	Targets []struct{ Expr string }
	GridPos struct{ H, W, X, Y int }
}

// queries returns the queries of the dashboard, with values in place of Grafana's variables.
func queries(t *testing.T) (all []string) {
	t.Helper()
	var board struct {
		UID        string `json:"uid"`
		Title      string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Type string }
		}
	}
	if err := json.Unmarshal(read(t, deploy(t, "grafana", "tocsin.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.UID != "tocsin" || len(board.Templating.List) != 2 {
		t.Errorf("got dashboard %q with %d variables, want tocsin with 2", board.UID, len(board.Templating.List))
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("got panel %d %q at %+v, want a unique id, a title, and a right edge of at most 24", p.ID, p.Title, p.GridPos)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q has no queries, want some", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "5m", "$job", "tocsin.*").Replace(target.Expr))
		}
	}
	return all
}

// metricsOf returns the metrics of a query.
func metricsOf(t *testing.T, query string) (names []string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Fatalf("parse the query %s: %v", query, err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	return names
}

// TestMetricsExist checks that the services have each metric that the dashboard and the
// rules use, and that no metric of ours is left out.
func TestMetricsExist(t *testing.T) {
	metrics := serviceMetrics(t)
	used := map[string]bool{}
	ask := func(where, query string) {
		for _, name := range metricsOf(t, query) {
			used[name] = true
			if !metrics[name] && name != "up" {
				t.Errorf("%s uses %s, want a metric of a service", where, name)
			}
		}
	}
	for _, q := range queries(t) {
		ask("the dashboard", q)
	}
	groups, errs := rulefmt.Parse(read(t, deploy(t, "grafana", "alerts.yaml")), false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatalf("got %s, want none", errs)
	}
	rules := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules++
			ask(r.Alert, r.Expr)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("rule %s has severity %q and summary %q, want both", r.Alert, r.Labels["severity"], r.Annotations["summary"])
			}
		}
	}
	if rules == 0 {
		t.Error("got no rules, want some")
	}
	for name := range metrics {
		base := regexp.MustCompile(`_(sum|count|bucket)$`).ReplaceAllString(name, "")
		if strings.HasPrefix(name, "tocsin_") && !used[name] && !used[base+"_bucket"] && leftOut[name] == "" {
			t.Errorf("no panel or rule uses %s, want one, or a reason in leftOut", name)
		}
	}
	for name := range leftOut {
		if !metrics[name] || used[name] {
			t.Errorf("leftOut has %s, want only metrics that exist and are not used", name)
		}
	}
}

// TestScrapeConfig checks that Prometheus accepts it, and that it scrapes what the
// compose file runs.
func TestScrapeConfig(t *testing.T) {
	file := deploy(t, "grafana", "prometheus.yaml")
	// Prometheus's own reader needs every service discovery that exists, so the few
	// fields in use are read strictly here.
	var cfg struct {
		Global struct {
			ScrapeInterval model.Duration `json:"scrape_interval"`
		} `json:"global"`
		RuleFiles     []string `json:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `json:"job_name"`
			Authorization struct {
				CredentialsFile string `json:"credentials_file"`
			} `json:"authorization"`
			Static []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict(read(t, file), &cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Global.ScrapeInterval <= 0 || len(cfg.RuleFiles) == 0 {
		t.Errorf("got %+v, want ScrapeInterval over 0 and an entry in RuleFiles", cfg)
	}
	for _, rules := range cfg.RuleFiles {
		read(t, filepath.Join(filepath.Dir(file), rules))
	}
	project, err := composeProject(t, composeEnv()...)
	if err != nil {
		t.Fatal(err)
	}
	var secrets []string
	for _, secret := range project.Services["prometheus"].Secrets {
		secrets = append(secrets, "/run/secrets/"+secret.Source)
	}
	asked := 0
	for _, job := range cfg.ScrapeConfigs {
		if file := job.Authorization.CredentialsFile; !slices.Contains(secrets, file) {
			t.Errorf("%s has the credentials file %q, want one of the secrets of Prometheus: %v", job.JobName, file, secrets)
		}
		for _, static := range job.Static {
			for _, target := range static.Targets {
				host, _, err := net.SplitHostPort(target)
				if err != nil {
					t.Error(err)
				}
				s, ok := project.Services[host]
				if !ok {
					t.Errorf("target %s is no service of the compose file, want one", target)
					continue
				}
				asked++
				if hosts := *s.Environment["TOCSIN_ALLOWED_HOSTS"]; !slices.Contains(strings.Split(hosts, ","), host) {
					t.Errorf("TOCSIN_ALLOWED_HOSTS of %s = %s, want %s among them", target, hosts, host)
				}
			}
		}
		if !strings.HasPrefix(job.JobName, "tocsin-") {
			t.Errorf("got job %s, want the prefix tocsin-, which the dashboard shows", job.JobName)
		}
	}
	if asked == 0 {
		t.Error("got no targets, want some")
	}
}

// serviceMetrics runs tocsin up, a gateway on HTTP and a kubewatch whose cluster does
// not answer, makes every metric move, and returns their names.
func serviceMetrics(t *testing.T) map[string]bool {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "tocsin")
	root := filepath.Dir(deploy(t))
	must(t, root, []string{"GOWORK=" + filepath.Join(root, "go.work")}, "go", "build", "-o", bin, "./services/tocsin")
	addrs := make([]string, 4)
	for i := range addrs {
		addrs[i] = freeAddr(t)
	}
	state := t.TempDir()
	begin := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), bin, args...)
		cmd.Env = append(os.Environ(), "TOCSIN_STATE_DIR="+state)
		cmd.Dir = state
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("tocsin %v: %v", args, err)
			}
		})
	}
	begin("up", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--otlp-addr=127.0.0.1:0", "--ingest-addr="+addrs[0], "--dashboard-addr="+addrs[1])
	begin("gateway", "--autostart=false", "--http="+addrs[2])
	kubeconfig := filepath.Join(state, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(unreachableCluster), 0o600); err != nil {
		t.Fatal(err)
	}
	begin("kubewatch", "--kubeconfig="+kubeconfig, "--health-addr="+addrs[3])
	eventually(t, "services", func() bool {
		for _, a := range addrs {
			if status, _ := call(t, "GET", "http://"+a+"/readyz", "", ""); status != 200 {
				return false
			}
		}
		return true
	})
	ingestURL := "http://" + addrs[0]
	for path, body := range map[string]string{
		"/v1/events":             `{"kind":"log","log":{"level":"error","message":"it broke"}}`,
		"/ci-result":             `{"status":"failure"}`,
		"/webhooks/alertmanager": `{"version":"4","groupKey":"g","status":"firing","alerts":[{"status":"firing","labels":{"alertname":"A"},"startsAt":"2026-01-28T14:30:00Z","fingerprint":"f"}]}`,
		// Half of it cannot be made ours.
		"/api/1/envelope/": "{}\n{\"type\":\"client_report\"}\n{}\n{\"type\":\"attachment\",\"length\":2}\nxx\n",
	} {
		if status, said := call(t, "POST", ingestURL+path, "application/json", body); status/100 != 2 {
			t.Errorf("%s: got %d %s, want status / 100 2", path, status, said)
		}
	}
	call(t, "GET", "http://"+addrs[1]+"/api/status", "", "")
	metrics := map[string]bool{}
	// The detector saves its state after 10 s.
	eventually(t, "metrics of all", func() bool {
		for _, a := range addrs {
			_, page := call(t, "GET", "http://"+a+"/metrics", "", "")
			for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`).FindAllStringSubmatch(page, -1) {
				metrics[m[1]] = true
			}
		}
		return metrics["tocsin_detector_alerts_total"] && metrics["tocsin_detector_snapshot_bytes"] && metrics["tocsin_ingest_left_out_total"]
	})
	return metrics
}

// unreachableCluster returns a kubeconfig of a cluster that refuses connections.
const unreachableCluster = `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func call(t *testing.T, method, url, media, body string) (status int, said string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0, err.Error() // not up yet: the caller polls
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Sprint(err)
	}
	return resp.StatusCode, string(data)
}
