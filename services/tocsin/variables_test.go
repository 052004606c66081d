package main

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// TestPassedOn expects every setting of the gateway, and of the bus that it starts, also of
// embedded structs.
func TestPassedOn(t *testing.T) {
	got, err := gatewayVariables()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			if name := field.Tag.Get("env"); name != "" {
				want = append(want, name)
			}
			if field.Type.Kind() == reflect.Struct {
				walk(field.Type)
			}
		}
	}
	for _, v := range []any{service.Settings{}, gatewayCommand{}, upCommand{}} {
		walk(reflect.TypeOf(v))
	}
	if len(want) < 25 {
		t.Errorf("settings = %v, want at least 25", want)
	}
	for _, name := range append(want, "XDG_STATE_HOME", "TOCSIN_NOTIFY_SLACK", "TOCSIN_NATS_WS_ADDR") {
		if !slices.Contains(got, name) {
			t.Errorf("gatewayVariables lacks %s", name)
		}
	}
	seen := map[string]bool{}
	for _, name := range got {
		if seen[name] {
			t.Errorf("gatewayVariables has %s twice", name)
		}
		seen[name] = true
	}
}
