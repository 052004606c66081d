package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// systemVariables returns the variables of the system that a gateway, or the bus that it
// starts, reads: for the directories of state and settings, for desktop notifications and
// for the proxy of a webhook.
func systemVariables() []string {
	return []string{
		"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	}
}

// gatewayVariables returns the variables that a client has to pass to its gateway: all that the
// gateway, or the bus that it may start, reads.
func gatewayVariables() ([]string, error) {
	k, err := service.NewParser(&cli{}, kong.Configuration(noSettings))
	if err != nil {
		return nil, fmt.Errorf("list the settings: %w", err)
	}
	var out []string
	add := func(flags []*kong.Flag) {
		for _, flag := range flags {
			out = append(out, flag.Envs...)
		}
	}
	add(k.Model.Flags)
	for _, command := range k.Model.Children {
		if command.Name == "gateway" || command.Name == "up" {
			add(command.Flags)
		}
	}
	slices.Sort(out)
	return append(slices.Compact(out), systemVariables()...), nil
}

// noSettings is a loader that reads no settings file.
func noSettings(io.Reader) (kong.Resolver, error) { return nil, nil }
