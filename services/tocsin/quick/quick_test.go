package quick

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/shared/service"
)

func TestLine(t *testing.T) {
	for args, want := range map[string]string{
		"hook": "hook", "hook --client codex": "hook", "hook --help": "hook", "version": "version", "ci --status success": "ci", "wait --timeout 1s": "wait",
		"": "", "up": "", "--log-level=debug hook": "", "up hook": "",
		"hook --client codex --config x.yaml": "hook", "hook --config=x.yaml": "hook", "--config=x.yaml hook": "",
	} {
		got := ""
		if line := Line(strings.Fields(args)); line != nil {
			k, err := service.NewParser(line, kong.Configuration(func(io.Reader) (kong.Resolver, error) { return nil, nil }))
			if err != nil {
				t.Fatal(err)
			}
			if got = k.Model.Children[0].Name; len(k.Model.Children) != 1 {
				t.Errorf("Line(%q) has %d commands, want 1", args, len(k.Model.Children))
			}
		}
		if got != want {
			t.Errorf("Line(%q) = %q, want %q", args, got, want)
		}
	}
}
