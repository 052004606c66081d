package telemetry

import "strings"

// ReservedApp is the app under which Tocsin reports about itself. No sender may use it, in any
// letter case: a reader would take the sender's events for those of Tocsin.
const ReservedApp = "tocsin"

// invisibleChars removes the characters that sanitizing allows and that are invisible in a
// name: the joiners and the Braille blank.
var invisibleChars = strings.NewReplacer("\u200c", "", "\u200d", "", "\u2800", "")

// IsReserved reports whether a sender's app is, or looks like, the reserved one.
func IsReserved(app string) bool {
	return strings.EqualFold(strings.TrimSpace(invisibleChars.Replace(app)), ReservedApp)
}

// SenderApp returns the app under which something from outside is stored: its own name,
// or "tocsin_" for the reserved one.
func SenderApp(app string) string {
	if IsReserved(app) {
		return ReservedApp + "_"
	}
	return app
}
