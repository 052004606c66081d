package containers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Ports inside the containers.
const (
	PortNATS      = 4222
	PortMonitor   = 8222
	PortIngest    = 7400
	PortDetector  = 7490
	PortDashboard = 7480
	PortGateway   = 7460
)

const (
	// natsDir and secretsDir are the paths of the server's configuration and of its
	// keys in a container.
	natsDir    = "/etc/tocsin"
	secretsDir = "/run/secrets"
	// provisionWithin bounds how long a new cluster may take until it has its streams.
	provisionWithin = 90 * time.Second
)

// Cluster is Tocsin on several machines, as in deploy/compose: three NATS servers with
// the configuration of deploy/nats, and services with a key for their role only. Its
// ports are published on this machine.
type Cluster struct {
	NATS, Ingest, Detector []*Container
	Dashboard, Gateway     *Container
	// Token is the bearer token of HTTP writes and of clients of the gateway.
	Token string
	// Keys is the directory with the roles' keys.
	Keys string
}

// Layout configures a cluster.
type Layout struct {
	Partitions int
	// Program is the path of a tocsin that makes the keys in Keys, an empty directory.
	Program, Keys string
}

// StartCluster starts a cluster in the network. It returns when the streams exist and all
// containers are started, but possibly not ready.
func StartCluster(ctx context.Context, n *Net, built Images, layout Layout) (*Cluster, error) {
	c := &Cluster{Token: rand.Text(), Keys: layout.Keys}
	env, err := makeKeys(ctx, layout.Program, layout.Keys)
	if err != nil {
		return nil, err
	}
	if err := c.startNATS(ctx, n, built.NATS, env); err != nil {
		return nil, err
	}
	urls := "nats://nats-1:4222,nats://nats-2:4222,nats://nats-3:4222"
	service := func(name, image string, port int, role string, more map[string]string) (*Container, error) {
		s := Spec{
			Name: name, Image: image, Files: map[string][]byte{}, Writable: true,
			Env: map[string]string{"TOCSIN_NATS_URL": urls, "TOCSIN_TOKEN": c.Token, "TOCSIN_NATS_CREDS": secretsDir + "/" + role, "TOCSIN_LOG_LEVEL": "debug"},
		}
		if port > 0 {
			s.Ports = []int{port}
		}
		roles := []string{role}
		for name, value := range more {
			s.Env[name] = value
			if at, ok := strings.CutPrefix(value, secretsDir+"/"); ok {
				roles = append(roles, at)
			}
		}
		for _, role := range roles {
			key, err := os.ReadFile(filepath.Join(layout.Keys, role+".nk"))
			if err != nil {
				return nil, fmt.Errorf("read a key: %w", err)
			}
			s.Files[secretsDir+"/"+role] = key
		}
		if image == built.Tocsin {
			s.Args = []string{"provision", "--wait", "60s"}
		}
		return n.Run(ctx, s)
	}
	provision, err := service("provision", built.Tocsin, 0, "provisioner", map[string]string{
		"TOCSIN_REPLICAS": "3", "TOCSIN_PARTITIONS": fmt.Sprint(layout.Partitions),
	})
	if err != nil {
		return nil, err
	}
	if code, err := provision.Ended(ctx, provisionWithin); err != nil || code != 0 {
		return nil, fmt.Errorf("tocsin provision: got exit code %d, want 0: %w\n%s", code, err, provision.Logs(ctx))
	}
	for _, s := range []struct {
		name, image string
		port        int
		role        string
		more        map[string]string
		into        func(*Container)
	}{
		{"ingest-1", built.Ingest, PortIngest, "ingest", nil, func(m *Container) { c.Ingest = append(c.Ingest, m) }},
		{"ingest-2", built.Ingest, PortIngest, "ingest", nil, func(m *Container) { c.Ingest = append(c.Ingest, m) }},
		{"detector-1", built.Detector, PortDetector, "detector", detectorEnv, func(m *Container) { c.Detector = append(c.Detector, m) }},
		{"detector-2", built.Detector, PortDetector, "detector", detectorEnv, func(m *Container) { c.Detector = append(c.Detector, m) }},
		{"dashboard", built.Dashboard, PortDashboard, "dashboard", map[string]string{"TOCSIN_DESK_CREDS": secretsDir + "/gateway"}, func(m *Container) { c.Dashboard = m }},
		{"gateway", built.Gateway, PortGateway, "gateway", nil, func(m *Container) { c.Gateway = m }},
	} {
		made, err := service(s.name, s.image, s.port, s.role, s.more)
		if err != nil {
			return nil, err
		}
		s.into(made)
	}
	return c, nil
}

// detectorEnv makes the health and metrics of the detectors reachable from outside.
var detectorEnv = map[string]string{"TOCSIN_DETECTOR_HEALTH_ADDR": fmt.Sprintf("0.0.0.0:%d", PortDetector)}

// startNATS starts the three servers.
func (c *Cluster) startNATS(ctx context.Context, n *Net, image string, env map[string]string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, name := range []string{"cluster.conf", "common.conf", "roles.conf"} {
		if files[natsDir+"/"+name], err = os.ReadFile(filepath.Join(root, "deploy/nats", name)); err != nil {
			return fmt.Errorf("read the configuration of NATS: %w", err)
		}
	}
	routes := make([]string, 3)
	for i := range routes {
		routes[i] = fmt.Sprintf("%q", fmt.Sprintf("nats-route://routes:%s@nats-%d:6222", env["TOCSIN_ROUTES_PASSWORD"], i+1))
	}
	for i := range routes {
		name := fmt.Sprintf("nats-%d", i+1)
		own := map[string]string{
			"TOCSIN_SERVER_NAME": name, "TOCSIN_SERVER_STORE": "/data", "TOCSIN_SERVER_MONITOR": fmt.Sprintf("0.0.0.0:%d", PortMonitor),
			"TOCSIN_SERVER_ORIGINS": `["http://localhost"]`, "TOCSIN_SERVER_ROUTES": "[" + strings.Join(routes, ", ") + "]",
		}
		for variable, value := range env {
			own[variable] = value
		}
		server, err := n.Run(ctx, Spec{
			Name: name, Image: image, Args: []string{"-c", natsDir + "/cluster.conf"}, Env: own, Files: files,
			Ports: []int{PortNATS, PortMonitor}, Volumes: []string{"/data"}, Writable: true,
		})
		if err != nil {
			return err
		}
		c.NATS = append(c.NATS, server)
	}
	return nil
}

// makeKeys makes the keys, and returns the servers' environment.
func makeKeys(ctx context.Context, program, dir string) (map[string]string, error) {
	if out, err := exec.CommandContext(ctx, program, "keys", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make the keys: %w\n%s", err, out)
	}
	env := map[string]string{}
	for _, name := range []string{"keys.env", "routes.env"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("read the environment of the servers: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if variable, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				env[variable] = value
			}
		}
	}
	return env, nil
}

// All returns its containers, the servers first.
func (c *Cluster) All() []*Container {
	return append(append(append(append([]*Container{}, c.NATS...), c.Ingest...), c.Detector...), c.Dashboard, c.Gateway)
}

// URLs returns the addresses of its NATS servers on this machine.
func (c *Cluster) URLs() string {
	urls := make([]string, len(c.NATS))
	for i, server := range c.NATS {
		urls[i] = "nats://" + server.Addr(PortNATS)
	}
	return strings.Join(urls, ",")
}

// Ready returns the URL of a container's readiness check.
func (c *Cluster) Ready(of *Container) string {
	for port, path := range map[int]string{
		PortMonitor: "/healthz", PortIngest: "/readyz", PortDetector: "/readyz", PortDashboard: "/readyz", PortGateway: "/readyz",
	} {
		if of.ports[port] > 0 {
			return of.URL(port) + path
		}
	}
	return ""
}
