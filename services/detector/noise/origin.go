package noise

import (
	"bytes"
	"net/netip"
	"net/url"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxLook is how many bytes of a text are searched.
const maxLook = 4096

// FromTool reports whether an event with a log comes from a browser extension or a
// development tool. Only the innermost frame of a stack counts: an extension that wraps
// fetch is in the stacks of many errors of the app.
func FromTool(e *telemetry.Event) bool {
	log := e.Log
	return ofExtension(e.URL) || toolText(log.Message) || log.Source != "" && toolText(log.Source) ||
		log.Stack != "" && toolText(innermost(log.Stack))
}

// ofExtension reports whether a page belongs to an extension, in any browser.
func ofExtension(page string) bool {
	scheme, _, ok := strings.Cut(head(page), "://")
	return ok && strings.HasSuffix(scheme, "-extension")
}

// innermost returns the first line of a stack that has a URL.
func innermost(stack string) string {
	stack = head(stack)
	at := strings.Index(stack, "://")
	if at < 0 {
		return ""
	}
	begin := strings.LastIndexByte(stack[:at], '\n') + 1
	line, _, _ := strings.Cut(stack[begin:], "\n")
	return line
}

// toolMarks are the addresses of extensions in any browser, and the prefixes of development
// servers.
var toolMarks = [...]string{"-extension://", "[HMR]", "[vite]"}

func toolText(text string) bool {
	text = head(text)
	for _, mark := range toolMarks {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return aboutSourceMaps(text)
}

// aboutSourceMaps reports whether a text has the words "source map" in any spelling. The
// words "data source mapping" do not count.
func aboutSourceMaps(text string) bool {
	for {
		at := strings.Index(text, "ource")
		if at < 0 {
			return false
		}
		before, after := text[:at], text[at+len("ource"):]
		text = after
		if n := len(before); n == 0 || before[n-1]|0x20 != 's' || n > 1 && isLetter(before[n-2]) {
			continue
		}
		if strings.HasPrefix(after, "MappingURL") {
			return true
		}
		if after != "" && (after[0] == ' ' || after[0] == '-') {
			after = after[1:]
		}
		if len(after) < 3 || !strings.EqualFold(after[:3], "map") {
			continue
		}
		if after = strings.TrimPrefix(after[3:], "s"); after == "" || !isLetter(after[0]) {
			return true
		}
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func head(text string) string { return text[:min(len(text), maxLook)] }

// probes are the last segments of the paths of health checks. underHealth are those that
// follow a segment such as health.
var (
	probes = map[string]bool{
		"health": true, "healthz": true, "healthcheck": true, "health-check": true, "_health": true,
		"ping": true, "ready": true, "readyz": true, "readiness": true, "livez": true, "liveness": true,
	}
	underHealth = map[string]bool{"live": true, "started": true, "startup": true}
)

// sockets are segments of the paths of development servers' sockets.
var sockets = map[string]bool{
	"sockjs-node": true, "webpack-hmr": true, "__webpack_hmr": true, "__vite_ping": true, "__vite_hmr": true, "@vite": true,
	"ng-cli-ws": true, "hmr": true, "vite-hmr": true, "livereload": true,
}

// maxSegment is the longest segment in the tables, or more.
const maxSegment = 16

// infrastructure returns the part of a path template that makes a request one of the
// infrastructure, or localSocket, and nil for other requests. It compares whole segments.
func infrastructure(page []byte, rawURL string) []byte {
	if string(page) == "/" && toLocalSocket(rawURL) {
		return localSocket
	}
	page = bytes.TrimSuffix(page, []byte("/"))
	if string(page) == "/ws" { // webpack's development server; a longer path is the app's own
		return page
	}
	var before, segment []byte
	for begin := 0; begin <= len(page); {
		end := len(page)
		if i := bytes.IndexByte(page[begin:], '/'); i >= 0 {
			end = begin + i
		}
		before, segment = segment, page[begin:end]
		if sockets[string(segment)] || string(segment) == "socket.io" && string(before) == "browser-sync" {
			return page[:end]
		}
		begin = end + 1
	}
	if hasFold(probes, segment) || hasFold(underHealth, segment) && hasFold(probes, before) {
		return page
	}
	return nil
}

// localSocket stands for sockets without a path on this machine, such as that of Vite, on
// any port.
var localSocket = []byte("ws://localhost/")

// toLocalSocket reports whether a URL is that of a WebSocket on a loopback host.
func toLocalSocket(rawURL string) bool {
	if !strings.HasPrefix(rawURL, "ws://") && !strings.HasPrefix(rawURL, "wss://") {
		return false
	}
	u, err := url.Parse(head(rawURL))
	if err != nil {
		return false
	}
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// hasFold reports whether a table has a segment, ignoring case.
func hasFold(table map[string]bool, segment []byte) bool {
	if len(segment) > maxSegment {
		return false
	}
	var lower [maxSegment]byte
	for i, c := range segment {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return table[string(lower[:len(segment)])]
}
