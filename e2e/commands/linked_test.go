package commands

import (
	"debug/buildinfo"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestNoTestToolIsLinked checks that modules for tests are not in the product.
// client-go brings go-spew and go-difflib along, which print objects in its log and its
// errors.
func TestNoTestToolIsLinked(t *testing.T) {
	t.Parallel()
	info, err := buildinfo.ReadFile(e2etest.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range info.Deps {
		for _, tool := range []string{"gotest.tools/", "github.com/stretchr/", "github.com/onsi/", "github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak", "go.uber.org/mock"} {
			if strings.HasPrefix(module.Path, tool) {
				t.Errorf("%s %s is linked into the product, want it in tests only", module.Path, module.Version)
			}
		}
	}
}
