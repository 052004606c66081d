package faults

import (
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }
