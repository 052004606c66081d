package service

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// TestLayoutAndTLS: what can't be is refused in words that name the setting.
func TestLayoutAndTLS(t *testing.T) {
	external := BusFlags{NATSURL: "nats://127.0.0.1:4222,nats://127.0.0.1:4223"}
	with := func(cert, key string) BusFlags {
		f := external
		f.NATSCert, f.NATSKey = cert, key
		return f
	}
	for name, c := range map[string]struct {
		bus    BusFlags
		layout LayoutFlags
		want   string // of the error; empty for none
	}{
		"the default":                  {},
		"an external bus":              {bus: external},
		"three copies, four parts":     {bus: external, layout: LayoutFlags{Replicas: 3, Partitions: 4}},
		"one of each":                  {layout: LayoutFlags{Replicas: 1, Partitions: 1}},
		"copies of the embedded bus":   {layout: LayoutFlags{Replicas: 3}, want: "--replicas works with an external bus only"},
		"parts of the embedded bus":    {layout: LayoutFlags{Partitions: 2}, want: "--partitions works with an external bus only"},
		"too many copies":              {bus: external, layout: LayoutFlags{Replicas: 6}, want: "--replicas must be between 1 and 5"},
		"fewer copies than none":       {bus: external, layout: LayoutFlags{Replicas: -1}, want: "--replicas must be between 1 and 5"},
		"too many parts":               {bus: external, layout: LayoutFlags{Partitions: 65}, want: "--partitions must be between 1 and 64"},
		"fewer parts than none":        {bus: external, layout: LayoutFlags{Partitions: -1}, want: "--partitions must be between 1 and 64"},
		"a certificate and its key":    {bus: with("c", "k")},
		"a certificate without a key":  {bus: with("c", ""), want: "--nats-cert needs --nats-key"},
		"a key without a certificate":  {bus: with("", "k"), want: "--nats-key needs --nats-cert"},
		"several servers, one is none": {bus: BusFlags{NATSURL: "nats://127.0.0.1:4222,http://127.0.0.1:1"}, want: "scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			for _, err := range []error{c.bus.Validate(), c.layout.Validate(), c.layout.CheckBus(c.bus)} {
				if err != nil {
					got += err.Error()
				}
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if l := (LayoutFlags{Replicas: 3, Partitions: 4}).Layout(); l != (bus.Layout{Replicas: 3, Partitions: 4}) {
		t.Errorf("Layout = %+v, want 3 replicas and 4 partitions", l)
	}
	f := with("c", "k")
	f.NATSCA, f.NATSCreds = "ca", "creds"
	if cfg := (Env{StateDir: t.TempDir()}).Bus(f); cfg.CA != "ca" || cfg.Cert != "c" || cfg.Key != "k" || cfg.Creds != "creds" || cfg.URL != external.NATSURL {
		t.Errorf("Bus = %+v, want what the flags name", cfg)
	}
}
