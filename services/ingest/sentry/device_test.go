package sentry

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func TestDeviceOf(t *testing.T) {
	for agent, want := range map[lenientText]telemetry.Device{
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36":                         telemetry.DeviceMobile,
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36":                                telemetry.DeviceTablet,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1": telemetry.DeviceMobile,
		"Mozilla/5.0 (iPad; CPU OS 12_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1 Mobile/15E148 Safari/604.1":          telemetry.DeviceTablet,
		"Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0":                                                                    telemetry.DeviceMobile,
		"Mozilla/5.0 (Android 15; Tablet; rv:140.0) Gecko/140.0 Firefox/140.0":                                                                    telemetry.DeviceTablet,
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36":                           telemetry.DeviceDesktop,
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                        telemetry.DeviceDesktop,
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15":                   telemetry.DeviceDesktop,
		"Mozilla/5.0 (SmartHub; SMART-TV) AppleWebKit/537.36":                                                                                     "",
		"node":               "",
		"Go-http-client/1.1": "",
		"":                   "",
		"Mozilla/5.0 (X11" + lenientText(strings.Repeat(" ", maxShared)): "",
	} {
		if got := deviceOf(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}

// TestDeviceOfALoad checks that the device is found in spans, where each names the browser,
// and in transactions, whose request names it.
func TestDeviceOfALoad(t *testing.T) {
	const phone = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36"
	lcp, cls := `"browser.web_vital.lcp.value":{"value":52}`, `"browser.web_vital.cls.value":{"value":0.1}`
	span := func(attributes string) string {
		return `{"name":"x","span_id":"s","end_timestamp":1000.1,"attributes":{"url.full":{"value":"http://a/cart"},` + attributes + `}}`
	}
	const agent = `,"user_agent.original":{"value":"` + phone + `"}`
	const loaded = `{"type":"transaction","timestamp":1000.25,"contexts":{"trace":{"op":"pageload","span_id":"r"}},"measurements":{"lcp":{"value":52}},"request":{"url":"http://a/cart"`
	for _, tt := range []struct {
		name, item string
		want       telemetry.Device
	}{
		{"a span", span(lcp + agent), telemetry.DeviceMobile},
		{"the first of two spans has it", span(lcp+agent) + "," + span(cls), telemetry.DeviceMobile},
		{"the second of two spans has it", span(lcp) + "," + span(cls+agent), telemetry.DeviceMobile},
		{"no User-Agent", span(lcp), ""},
		{"an agent that is no text", span(lcp + `,"user_agent.original":{"value":{}}`), ""},
		{"a transaction", loaded + `,"headers":{"user-agent":"` + phone + `"}}}`, telemetry.DeviceMobile},
		{"headers as pairs", loaded + `,"headers":[["Accept","*/*"],["User-Agent","` + phone + `"]]}}`, telemetry.DeviceMobile},
		{"headers that are none", loaded + `,"headers":7}}`, ""},
		{"a transaction without headers", loaded + `}}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header, payload := `{"type":"transaction"}`, tt.item
			if !strings.HasPrefix(payload, `{"type"`) {
				header, payload = `{"type":"span","item_count":2}`, `{"items":[`+payload+`]}`
			}
			var got []telemetry.Device
			for _, e := range itemOf(t, nil, header, payload) {
				if e.Vitals != nil {
					got = append(got, e.Vitals.Device)
				}
			}
			if len(got) != 1 || got[0] != tt.want {
				t.Errorf("loads on %q, want one on %q", got, tt.want)
			}
		})
	}
}
