package manifests

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeEnv is the .env file that the README describes.
func composeEnv() []string {
	env := []string{"TOCSIN_TOKEN=secret", "TOCSIN_USER=1000:1000", "TOCSIN_ROUTES_PASSWORD=Rpassword", "TOCSIN_GRAFANA_PASSWORD=Gpassword"}
	for _, role := range roles {
		env = append(env, "TOCSIN_NKEY_"+strings.ToUpper(role)+"=U"+role)
	}
	return env
}

var roles = []string{"ingest", "detector", "gateway", "dashboard", "kubewatch", "provisioner"}

func composeProject(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{deploy(t, "compose", "compose.yaml")}, cli.WithEnv(env), cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

func TestCompose(t *testing.T) {
	project, err := composeProject(t, composeEnv()...)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"balancer", "dashboard", "detector-1", "detector-2", "gateway", "grafana", "ingest-1", "ingest-2", "kubewatch-1", "kubewatch-2", "nats-1", "nats-2", "nats-3", "prometheus", "provision", "stores",
	}
	if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got, want) {
		t.Errorf("services %v", got)
	}
	for _, s := range project.Services {
		bounded(t, s)
		if strings.HasPrefix(s.Image, "ghcr.io/tocsin-bus/") {
			ours(t, s)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %d is published on %q", s.Name, p.Target, p.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: mounts %s, read only %v: %v, want ReadOnly", s.Name, v.Source, v.ReadOnly, err)
			}
		}
		for _, other := range slices.Sorted(maps.Keys(s.DependsOn)) {
			if d := s.DependsOn[other]; d.Condition == types.ServiceConditionStarted {
				t.Errorf("%s begins before %s is well", s.Name, other)
			}
		}
	}
	for _, name := range []string{"nats-1", "nats-2", "nats-3"} {
		server := project.Services[name]
		if got := server.User; got != "1000:1000" {
			t.Errorf("%s: user %q, want 1000:1000", name, got)
		}
		if monitor := *server.Environment["TOCSIN_SERVER_MONITOR"]; !strings.HasPrefix(monitor, "127.0.0.1:") {
			t.Errorf("%s: other containers reach its monitor at %s, want it to begin with \"127.0.0.1:\"", name, monitor)
		}
		// Its volume was given to that user before.
		given := slices.ContainsFunc(project.Services["stores"].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == name })
		if server.DependsOn["stores"].Condition != types.ServiceConditionCompletedSuccessfully || !given {
			t.Errorf("%s: begins without a volume that it may write", name)
		}
	}
	if stores := project.Services["stores"]; stores.NetworkMode != "none" || !slices.Equal(stores.CapAdd, []string{"CHOWN", "DAC_READ_SEARCH"}) ||
		!slices.Equal(stores.Command, []string{"1000:1000", "/stores"}) {
		t.Errorf("stores: network %q, capabilities %v, command %q", stores.NetworkMode, stores.CapAdd, stores.Command)
	}
	if v := project.Services["grafana"].Environment["GF_SECURITY_ADMIN_PASSWORD"]; v == nil || *v != "Gpassword" {
		t.Error("grafana has a password that is not the one of .env")
	}
	// The secrets of senders and readers are only in the containers that check them.
	for name, s := range project.Services {
		listens := strings.HasPrefix(s.Image, "ghcr.io/tocsin-bus/") && name != "provision"
		if v := s.Environment["TOCSIN_TOKEN"]; (v != nil && *v != "") != listens {
			t.Errorf("%s: has the token: %v, want %v", name, v != nil, listens)
		}
	}
	// Each may have its own key and no other; the dashboard has the key for its actions
	// too.
	for service, want := range map[string][]string{
		"ingest-1": {"ingest"}, "ingest-2": {"ingest"}, "detector-1": {"detector"}, "detector-2": {"detector"},
		"gateway": {"gateway"}, "dashboard": {"dashboard", "gateway"}, "provision": {"provisioner"},
		"kubewatch-1": {"kubeconfig", "kubewatch"}, "kubewatch-2": {"kubeconfig", "kubewatch"},
		"prometheus": {"token"},
	} {
		var got []string
		for _, s := range project.Services[service].Secrets {
			got = append(got, s.Source)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s has the keys %v", service, got)
		}
	}
	for role, secret := range project.Secrets {
		file := role + ".nk"
		if role == "kubeconfig" || role == "token" {
			file = role
		}
		if secret.File != deploy(t, "compose", "keys", file) {
			t.Errorf("the key of %s is %s", role, secret.File)
		}
	}
	// The routes have no space, which a server would not accept, and are complete.
	routes := *project.Services["nats-1"].Environment["TOCSIN_SERVER_ROUTES"]
	if strings.Count(routes, `"nats-route://routes:Rpassword@nats-`) != 3 || strings.ContainsAny(routes, "\n") {
		t.Errorf("routes %q", routes)
	}
}

// bounded checks the limits of every container.
func bounded(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if s.Name != "provision" && s.Name != "stores" && s.MemLimit == 0 {
		t.Errorf("%s: no limit of memory", s.Name)
	}
	if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s: may gain privileges", s.Name)
	}
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 && s.Name != "stores" {
		t.Errorf("%s: has capabilities: without %v, with %v", s.Name, s.CapDrop, s.CapAdd)
	}
	if !s.ReadOnly && s.Name != "grafana" { // that one writes outside its volume
		t.Errorf("%s: may write its root", s.Name)
	}
	if s.Restart == "" {
		t.Errorf("%s: stays ended", s.Name)
	}
	if image, tag, ok := strings.Cut(s.Image, ":"); !ok || tag == "latest" || image == "" {
		t.Errorf("%s: image %q is of no version", s.Name, s.Image)
	}
}

// ours checks our own images.
func ours(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if s.User != "1000:1000" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
		t.Errorf("%s: user %q, read only %v, without %v", s.Name, s.User, s.ReadOnly, s.CapDrop)
	}
	if s.StopGracePeriod == nil || s.StopGracePeriod.String() != "30s" {
		t.Errorf("%s: is given %v to end", s.Name, s.StopGracePeriod)
	}
	for _, name := range []string{"TOCSIN_NATS_URL", "TOCSIN_NATS_CREDS"} {
		if v := s.Environment[name]; v == nil || *v == "" {
			t.Errorf("%s: no %s", s.Name, name)
		}
	}
}

// TestComposeNamesWhatIsMissing checks that without keys or a token it fails with what
// to do.
func TestComposeNamesWhatIsMissing(t *testing.T) {
	for i, missing := range composeEnv() {
		name, _, _ := strings.Cut(missing, "=")
		env := slices.Delete(composeEnv(), i, i+1)
		if _, err := composeProject(t, env...); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "README.md") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestComposeIsValid has Docker's own program read it, if it is installed.
func TestComposeIsValid(t *testing.T) {
	command := []string{"docker", "compose"}
	if exec.Command("docker", "compose", "version").Run() != nil {
		command = []string{program(t, "docker-compose")}
	}
	args := append(slices.Clone(command[1:]), "-f", deploy(t, "compose", "compose.yaml"), "--profile", "monitoring", "--profile", "gateway", "--profile", "kubernetes", "config", "--quiet")
	must(t, t.TempDir(), composeEnv(), command[0], args...)
}

// TestBalancerIsValid has HAProxy read its settings, if it is installed.
func TestBalancerIsValid(t *testing.T) {
	config := deploy(t, "compose", "haproxy.cfg")
	must(t, filepath.Dir(config), nil, program(t, "haproxy"), "-c", "-f", config)
}
