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

var roles = []string{"ingest", "detector", "gateway", "dashboard", "kubewatch", "investigator", "provisioner"}

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
		"balancer", "dashboard", "detector-1", "detector-2", "gateway", "grafana", "ingest-1", "ingest-2", "investigator", "kubewatch-1", "kubewatch-2", "nats-1", "nats-2", "nats-3", "prometheus", "provision", "stores",
	}
	if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got, want) {
		t.Errorf("got services %v, want %v", got, want)
	}
	for _, s := range project.Services {
		bounded(t, s)
		if strings.HasPrefix(s.Image, "ghcr.io/tocsin-bus/") {
			ours(t, s)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %d is published on %q, want 127.0.0.1", s.Name, p.Target, p.HostIP)
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
				t.Errorf("%s waits for %s with condition %s, want it healthy or completed", s.Name, other, d.Condition)
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
		// The owner of its volume was changed to that user before.
		given := slices.ContainsFunc(project.Services["stores"].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == name })
		if server.DependsOn["stores"].Condition != types.ServiceConditionCompletedSuccessfully || !given {
			t.Errorf("%s: got condition %q for stores, and its volume there: %v; want it to wait until stores has changed the owner of its volume", name, server.DependsOn["stores"].Condition, given)
		}
	}
	if stores := project.Services["stores"]; stores.NetworkMode != "none" || !slices.Equal(stores.CapAdd, []string{"CHOWN", "DAC_READ_SEARCH"}) ||
		!slices.Equal(stores.Command, []string{"1000:1000", "/stores"}) {
		t.Errorf("stores: got network %q, capabilities %v, command %q, want none, CHOWN and DAC_READ_SEARCH, 1000:1000 /stores", stores.NetworkMode, stores.CapAdd, stores.Command)
	}
	if v := project.Services["grafana"].Environment["GF_SECURITY_ADMIN_PASSWORD"]; v == nil || *v != "Gpassword" {
		t.Error("GF_SECURITY_ADMIN_PASSWORD of grafana is not the password of .env, want that")
	}
	// Only the containers that check the token have it.
	for name, s := range project.Services {
		listens := strings.HasPrefix(s.Image, "ghcr.io/tocsin-bus/") && name != "provision"
		if v := s.Environment["TOCSIN_TOKEN"]; (v != nil && *v != "") != listens {
			t.Errorf("%s: has the token: %v, want %v", name, v != nil, listens)
		}
	}
	// Each service has only its own key. The dashboard also has the key for actions of people.
	for service, want := range map[string][]string{
		"ingest-1": {"ingest"}, "ingest-2": {"ingest"}, "detector-1": {"detector"}, "detector-2": {"detector"},
		"gateway": {"gateway"}, "dashboard": {"dashboard", "gateway"}, "provision": {"provisioner"},
		"kubewatch-1": {"kubeconfig", "kubewatch"}, "kubewatch-2": {"kubeconfig", "kubewatch"},
		"investigator": {"investigator"}, "prometheus": {"token"},
	} {
		var got []string
		for _, s := range project.Services[service].Secrets {
			got = append(got, s.Source)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got keys %v, want %v", service, got, want)
		}
	}
	for role, secret := range project.Secrets {
		file := role + ".nk"
		if role == "kubeconfig" || role == "token" {
			file = role
		}
		if want := deploy(t, "compose", "keys", file); secret.File != want {
			t.Errorf("the key of %s is %s, want %s", role, secret.File, want)
		}
	}
	// A server refuses routes with a space.
	routes := *project.Services["nats-1"].Environment["TOCSIN_SERVER_ROUTES"]
	if strings.Count(routes, `"nats-route://routes:Rpassword@nats-`) != 3 || strings.ContainsAny(routes, "\n") {
		t.Errorf("got routes %q, want 3 with user and password, on one line", routes)
	}
}

// bounded checks the limits of every container.
func bounded(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if s.Name != "provision" && s.Name != "stores" && s.MemLimit == 0 {
		t.Errorf("%s: got no memory limit, want one", s.Name)
	}
	if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("%s: security options %v, want no-new-privileges:true among them", s.Name, s.SecurityOpt)
	}
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 && s.Name != "stores" {
		t.Errorf("%s: drops capabilities %v and adds %v, want it to drop ALL and add none", s.Name, s.CapDrop, s.CapAdd)
	}
	if !s.ReadOnly && s.Name != "grafana" { // that one writes outside its volume
		t.Errorf("%s: the root file system is writable, want it read-only", s.Name)
	}
	if s.Restart == "" {
		t.Errorf("%s: got no restart policy, want one", s.Name)
	}
	if image, tag, ok := strings.Cut(s.Image, ":"); !ok || tag == "latest" || image == "" {
		t.Errorf("%s: image %q, want one with a version", s.Name, s.Image)
	}
}

// ours checks our own images.
func ours(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if s.User != "1000:1000" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
		t.Errorf("%s: got user %q, read-only %v, dropped capabilities %v, want 1000:1000, true, ALL", s.Name, s.User, s.ReadOnly, s.CapDrop)
	}
	if s.StopGracePeriod == nil || s.StopGracePeriod.String() != "30s" {
		t.Errorf("%s: stop grace period %v, want 30s", s.Name, s.StopGracePeriod)
	}
	for _, name := range []string{"TOCSIN_NATS_URL", "TOCSIN_NATS_CREDS"} {
		if v := s.Environment[name]; v == nil || *v == "" {
			t.Errorf("%s: got no %s, want one", s.Name, name)
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
			t.Errorf("without %s: error = %v, want %s and README.md in it", name, err, name)
		}
	}
}

// TestComposeIsValid has Docker's own program read it, if it is installed.
func TestComposeIsValid(t *testing.T) {
	command := []string{"docker", "compose"}
	if exec.Command("docker", "compose", "version").Run() != nil {
		command = []string{program(t, "docker-compose")}
	}
	args := append(slices.Clone(command[1:]), "-f", deploy(t, "compose", "compose.yaml"), "--profile", "monitoring", "--profile", "gateway", "--profile", "kubernetes", "--profile", "investigator", "config", "--quiet")
	must(t, t.TempDir(), composeEnv(), command[0], args...)
}

// TestBalancerIsValid has HAProxy read its settings, if it is installed.
func TestBalancerIsValid(t *testing.T) {
	config := deploy(t, "compose", "haproxy.cfg")
	must(t, filepath.Dir(config), nil, program(t, "haproxy"), "-c", "-f", config)
}
