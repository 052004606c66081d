package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

const (
	// stopWithin bounds the end of a container after SIGTERM. Then it is killed.
	stopWithin = 15 * time.Second
	// maxLog bounds the part of a log that is kept, in bytes.
	maxLog = 4 << 20
)

// ErrNoReaper is returned if Docker runs, but the image of testcontainers' reaper is
// missing and cannot be pulled. TESTCONTAINERS_RYUK_DISABLED=true works without it.
var ErrNoReaper = errors.New("the image of testcontainers' reaper is not installed; TESTCONTAINERS_RYUK_DISABLED=true works without it")

// Net is a network of containers, in which each is found by its name.
type Net struct {
	docker *testcontainers.DockerClient
	net    *testcontainers.DockerNetwork
	all    []*Container
}

// NewNet creates an empty network.
func NewNet(ctx context.Context) (*Net, error) {
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach Docker: %w", err)
	}
	made, err := network.New(ctx)
	if err != nil {
		return nil, errors.Join(noReaper(fmt.Errorf("make a network: %w", err)), docker.Close())
	}
	return &Net{docker: docker, net: made}, nil
}

func noReaper(err error) error {
	if strings.Contains(err.Error(), "reaper") {
		return fmt.Errorf("%w: %w", ErrNoReaper, err)
	}
	return err
}

// Close removes the containers with their volumes, and the network. A paused container
// is resumed first, because Docker would wait for it.
func (n *Net) Close(ctx context.Context) error {
	var err error
	for _, c := range n.all {
		if state, stateErr := c.c.State(ctx); stateErr == nil && state.Paused {
			err = errors.Join(err, c.Resume(ctx))
		}
		err = errors.Join(err, testcontainers.TerminateContainer(c.c, testcontainers.RemoveVolumes(c.volumes...)))
	}
	return errors.Join(err, n.net.Remove(ctx), n.docker.Close())
}

// Spec describes a container.
type Spec struct {
	// Name is its host name in the network.
	Name  string
	Image string
	Args  []string
	Env   map[string]string
	// Files are copied into it before it starts, by their path there. Its user can read
	// them.
	Files map[string][]byte
	// Ports are published on the loopback of this machine, each at a port that it keeps
	// when it is started again.
	Ports []int
	// Writable makes the whole file system writable. Otherwise only the mounts at
	// Volumes are. Files need it.
	Writable bool
	// Volumes are paths that are kept over a restart, until Close.
	Volumes []string
}

// Container is a container that was started.
type Container struct {
	Name string
	net  *Net
	c    testcontainers.Container
	// ports has the published ports by those of the container.
	ports   map[int]int
	volumes []string // their names
}

// Run starts a container without capabilities and without a way to get more.
func (n *Net) Run(ctx context.Context, s Spec) (*Container, error) {
	made := &Container{Name: s.Name, net: n, ports: map[int]int{}}
	bindings := dockernet.PortMap{}
	request := testcontainers.ContainerRequest{
		Image: s.Image, Cmd: s.Args, Env: s.Env,
		Networks: []string{n.net.Name}, NetworkAliases: map[string][]string{n.net.Name: {s.Name}},
		ConfigModifier: func(c *container.Config) { c.Hostname = s.Name },
		HostConfigModifier: func(h *container.HostConfig) {
			h.PortBindings, h.ReadonlyRootfs = bindings, !s.Writable
			h.CapDrop, h.SecurityOpt = []string{"ALL"}, []string{"no-new-privileges"}
		},
	}
	for _, port := range s.Ports {
		free, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		inside := dockernet.MustParsePort(strconv.Itoa(port) + "/tcp")
		bindings[inside] = []dockernet.PortBinding{{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(free)}}
		made.ports[port] = free
		request.ExposedPorts = append(request.ExposedPorts, inside.String())
	}
	for path, data := range s.Files {
		request.Files = append(request.Files, testcontainers.ContainerFile{
			Reader: strings.NewReader(string(data)), ContainerFilePath: path, FileMode: 0o444,
		})
	}
	for _, path := range s.Volumes {
		volume := n.net.Name + "-" + s.Name + strings.ReplaceAll(path, "/", "-")
		made.volumes = append(made.volumes, volume)
		request.Mounts = append(request.Mounts, testcontainers.ContainerMount{
			Source: testcontainers.GenericVolumeMountSource{Name: volume},
			Target: testcontainers.ContainerMountTarget(path),
		})
	}
	var err error
	made.c, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{ContainerRequest: request, Started: true})
	if made.c != nil {
		n.all = append(n.all, made)
	}
	if err != nil {
		err = noReaper(fmt.Errorf("start the container %s: %w", s.Name, err))
		if made.c != nil {
			err = fmt.Errorf("%w\n%s", err, made.Logs(ctx))
		}
		return nil, err
	}
	return made, nil
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// Addr returns the address on this machine of a published port.
func (c *Container) Addr(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.ports[port]))
}

// URL returns Addr as an HTTP URL.
func (c *Container) URL(port int) string { return "http://" + c.Addr(port) }

// ID returns the container's id in Docker.
func (c *Container) ID() string { return c.c.GetContainerID() }

// Health returns the status of the health check (starting, healthy, unhealthy, or none) and
// the last output of the check.
func (c *Container) Health(ctx context.Context) (status, output string, err error) {
	state, err := c.c.State(ctx)
	if err != nil {
		return "", "", fmt.Errorf("inspect %s: %w", c.Name, err)
	}
	if state.Health == nil {
		return "none", "", nil
	}
	if n := len(state.Health.Log); n > 0 {
		output = strings.TrimSpace(state.Health.Log[n-1].Output)
	}
	return string(state.Health.Status), output, nil
}

// AwaitHealth waits for a status of the health check.
func (c *Container) AwaitHealth(ctx context.Context, want string, within time.Duration) error {
	var status, output string
	var err error
	if harness.Poll(ctx, within, func() bool {
		status, output, err = c.Health(ctx)
		return err == nil && status == want
	}) {
		return nil
	}
	return fmt.Errorf("health of %s after %s: got %s, want %s: %s: %w\n%s", c.Name, within, status, want, output, err, c.Logs(ctx))
}

// Exec runs a program in the container, and returns its exit code and output.
func (c *Container) Exec(ctx context.Context, args ...string) (code int, output string, err error) {
	code, out, err := c.c.Exec(ctx, args)
	if err != nil {
		return 0, "", fmt.Errorf("run %v in %s: %w", args, c.Name, err)
	}
	var text strings.Builder
	if _, err := stdcopy.StdCopy(&text, &text, io.LimitReader(out, maxLog)); err != nil {
		return 0, "", fmt.Errorf("read the output of %v in %s: %w", args, c.Name, err)
	}
	return code, text.String(), nil
}

// Stop sends SIGTERM, waits, and returns the exit code.
func (c *Container) Stop(ctx context.Context) (code int, err error) {
	limit := stopWithin
	if err := c.c.Stop(ctx, &limit); err != nil {
		return 0, fmt.Errorf("stop %s: %w", c.Name, err)
	}
	state, err := c.c.State(ctx)
	if err != nil {
		return 0, fmt.Errorf("inspect %s: %w", c.Name, err)
	}
	return state.ExitCode, nil
}

// Ended waits until the container has ended by itself, and returns its exit code.
func (c *Container) Ended(ctx context.Context, within time.Duration) (code int, err error) {
	running := true
	if !harness.Poll(ctx, within, func() bool {
		var state *container.State
		if state, err = c.c.State(ctx); err != nil {
			return true
		}
		running, code = state.Running, state.ExitCode
		return !running
	}) {
		err = fmt.Errorf("still running after %s", within)
	}
	if err != nil {
		return 0, fmt.Errorf("wait for the end of %s: %w\n%s", c.Name, err, c.Logs(ctx))
	}
	return code, nil
}

// Start starts the container again.
func (c *Container) Start(ctx context.Context) error {
	_, err := c.net.docker.ContainerStart(ctx, c.ID(), client.ContainerStartOptions{})
	return err
}

// Kill kills the container.
func (c *Container) Kill(ctx context.Context) error {
	_, err := c.net.docker.ContainerKill(ctx, c.ID(), client.ContainerKillOptions{Signal: "KILL"})
	return err
}

// Pause pauses the processes of the container until Resume.
func (c *Container) Pause(ctx context.Context) error {
	_, err := c.net.docker.ContainerPause(ctx, c.ID(), client.ContainerPauseOptions{})
	return err
}

// Resume continues the processes after Pause.
func (c *Container) Resume(ctx context.Context) error {
	_, err := c.net.docker.ContainerUnpause(ctx, c.ID(), client.ContainerUnpauseOptions{})
	return err
}

// Cut disconnects the container from the network, with its published ports, until Join.
func (c *Container) Cut(ctx context.Context) error {
	_, err := c.net.docker.NetworkDisconnect(ctx, c.net.net.ID, client.NetworkDisconnectOptions{Container: c.ID()})
	return err
}

// Join connects the container again after Cut, under the same name.
func (c *Container) Join(ctx context.Context) error {
	_, err := c.net.docker.NetworkConnect(ctx, c.net.net.ID, client.NetworkConnectOptions{
		Container: c.ID(), EndpointConfig: &dockernet.EndpointSettings{Aliases: []string{c.Name}},
	})
	return err
}

// Logs returns the log so far, for the message of a failed test.
func (c *Container) Logs(ctx context.Context) string {
	r, err := c.c.Logs(ctx)
	if err != nil {
		return "no log: " + err.Error()
	}
	defer func() { _ = r.Close() }() // it was only read
	var text strings.Builder
	if data, err := io.ReadAll(io.LimitReader(r, maxLog)); err == nil {
		text.Write(data)
	}
	return text.String()
}
