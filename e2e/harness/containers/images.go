// Package containers runs the images of Tocsin, and of a NATS server, in a network of
// their own, for tests of faults. Images are built FROM scratch on this machine; none
// is pulled.
//
// It fails no test: it returns results and errors.
package containers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tag is the tag of the images that tests build.
const tag = "e2e"

// Images has the names of the images that Build has built.
type Images struct {
	Ingest, Detector, Gateway, Dashboard, Kubewatch, Investigator, Tocsin string
	// NATS is a NATS server. It runs as the same user as the others, and may write
	// below /data.
	NATS string
}

// Build builds all images with the script of deploy/images. It takes a minute if
// nothing was built before. It needs Docker.
func Build(ctx context.Context) (Images, error) {
	root, err := Root(ctx)
	if err != nil {
		return Images{}, err
	}
	out, err := run(ctx, root, []string{"TAG=" + tag, "REGISTRY=tocsin-e2e"}, "deploy/images/build.sh")
	if err != nil {
		return Images{}, fmt.Errorf("build the images: %w", err)
	}
	images := Images{}
	for name, to := range map[string]*string{
		"tocsin-ingest": &images.Ingest, "tocsin-detector": &images.Detector, "tocsin-gateway": &images.Gateway,
		"tocsin-dashboard": &images.Dashboard, "tocsin-kubewatch": &images.Kubewatch, "tocsin-investigator": &images.Investigator, "tocsin": &images.Tocsin,
	} {
		*to = "tocsin-e2e/" + name + ":" + tag
		if !strings.Contains(out, *to+"\n") {
			return Images{}, fmt.Errorf("build the images: %s is not among what was built:\n%s", *to, out)
		}
	}
	images.NATS, err = buildNATS(ctx, root)
	return images, err
}

// Root returns the root of the checkout that this program was built from.
func Root(ctx context.Context) (string, error) {
	out, err := run(ctx, "", nil, "go", "env", "GOWORK")
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(out)), nil
}

// natsDockerfile makes the image of a NATS server.
const natsDockerfile = `FROM scratch
COPY --chown=65532:65532 data /data
COPY nats-server /nats-server
USER 65532:65532
ENTRYPOINT ["/nats-server"]
`

// buildNATS builds a static NATS server of the workspace's version, and its image.
func buildNATS(ctx context.Context, root string) (name string, err error) {
	dir, err := os.MkdirTemp("", "tocsin-nats-")
	if err != nil {
		return "", fmt.Errorf("build the image of NATS: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := run(ctx, filepath.Join(root, "e2e"), []string{"CGO_ENABLED=0", "GOOS=linux"},
		"go", "build", "-trimpath", "-o", filepath.Join(dir, "nats-server"), "github.com/nats-io/nats-server/v2"); err != nil {
		return "", fmt.Errorf("build nats-server: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		return "", fmt.Errorf("build the image of NATS: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(natsDockerfile), 0o600); err != nil {
		return "", fmt.Errorf("build the image of NATS: %w", err)
	}
	name = "tocsin-e2e/nats:" + tag
	if _, err := run(ctx, dir, []string{"DOCKER_BUILDKIT=0"}, "docker", "build", "-q", "-t", name, "."); err != nil {
		return "", fmt.Errorf("build the image of NATS: %w", err)
	}
	return name, nil
}

func run(ctx context.Context, dir string, env []string, program string, args ...string) (stdout string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", program, err, &stderr)
	}
	return out.String(), nil
}
