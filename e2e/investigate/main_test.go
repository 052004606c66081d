package investigate

import (
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
)

func TestMain(m *testing.M) { investigation.Main(m) }
