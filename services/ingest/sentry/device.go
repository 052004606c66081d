package sentry

import (
	"strings"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// deviceOf returns the class of device that a browser's User-Agent names. It is empty for a
// User-Agent that is too long or not a browser's. An iPad names itself a Mac since iPadOS 13, so it
// counts as a desktop.
func deviceOf(agent lenientText) telemetry.Device {
	a := string(dropLong(agent))
	has := func(word string) bool { return strings.Contains(a, word) }
	switch {
	case !strings.HasPrefix(a, "Mozilla/"):
		return ""
	case has("iPad"), has("Tablet"):
		return telemetry.DeviceTablet
	case has("Mobi"): // as browsers agreed: Mobile or Mobi is a telephone
		return telemetry.DeviceMobile
	case has("Android"):
		return telemetry.DeviceTablet
	case has("Windows NT"), has("Macintosh"), has("X11"), has("CrOS"):
		return telemetry.DeviceDesktop
	default:
		return ""
	}
}
