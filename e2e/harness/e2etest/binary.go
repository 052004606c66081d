package e2etest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

var buildTocsin = sync.OnceValues(func() (string, error) { return harness.Build(context.Background(), harness.Tocsin) })

// Binary returns the path of the tocsin under test, which has the race detector.
func Binary(t *testing.T) string {
	t.Helper()
	bin, err := buildTocsin()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Build builds a program and returns its path.
func Build(t *testing.T, p harness.Program) string {
	t.Helper()
	bin, err := harness.Build(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// NATSServer returns the path of a static nats-server.
func NATSServer(t *testing.T) string {
	t.Helper()
	return Build(t, harness.Program{Name: "nats-server", Package: "github.com/nats-io/nats-server/v2", Dir: "e2e", Env: []string{"CGO_ENABLED=0"}})
}

// NATSCommand returns the path of the nats command. It skips the test where that
// cannot be built: it is a module of its own, with many dependencies.
func NATSCommand(t *testing.T) string {
	t.Helper()
	bin, err := harness.Build(t.Context(), harness.Program{
		Name: "nats", Package: "github.com/nats-io/natscli/nats", Dir: "e2e/natscli", Env: []string{"GOWORK=off", "CGO_ENABLED=0"},
	})
	if err != nil {
		t.Skip(err)
	}
	return bin
}

// Path returns the path of a file, given from the root of the checkout.
func Path(t *testing.T, name string) string {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, filepath.FromSlash(name))
}
