package redact_test

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// cleanKilobytes are texts of a kilobyte without a secret, of several kinds.
var cleanKilobytes = map[string]string{
	"log":   repeated("2026-01-28 14:30:00,123 INFO [worker-3] processed order 48213 of customer ada@example.com in 42 ms (3 items, EUR 59.90), cache hit: false\n"),
	"stack": repeated("    at renderWithHooks (http://localhost:3000/static/js/bundle.js:23456:18)\n    at async login (/app/src/auth/login.js:42:9)\n"),
	"JSON":  repeated(`{"id":12,"name":"Ada Lovelace","email":"ada@example.com","created":"2026-01-28T14:30:00.000Z","tags":["a","b"],"ok":true},`),
	"prose": repeated("The quick brown fox jumps over the lazy dog, and the test that follows it is the one that fails. "),
	"CI":    repeated("--- FAIL: TestCart (0.00s)\n    cart_test.go:42: got 3, want 4\nok  \tgithub.com/tocsin-bus/tocsin/shared/redact\t4.373s\n"),
	"shell": repeated("cd /app && npm run build -- --mode production --out-dir dist -j 4\ndocker run --rm -it -p 8080:80 -v /srv/data:/data --name web nginx:1.27 --verbose\ngit log --oneline -n 20 | grep -v merge > /tmp/log.txt\ncurl -fsSL -o app.tar.gz http://localhost:3000/app.tar.gz --retry 3\n"),
	"names": repeated("level=info time=12:30:01 method=GET path=/cart status=200 duration=42ms user=ada region=eu-west-1 items=3\nname: cart-service, version: 1.4.2, replicas: 3, image: nginx, port: 8080, ready: true\n"),
}

func repeated(s string) string { return strings.Repeat(s, 1024/len(s)+1)[:1024] }

// BenchmarkCleanKilobyte is an event with a kilobyte of text without a secret.
func BenchmarkCleanKilobyte(b *testing.B) {
	e := redact.New()
	for name, text := range cleanKilobytes {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Event(&telemetry.Event{Kind: telemetry.KindLog, App: "shop", Session: "s-1", URL: "http://localhost:3000/cart", Log: &telemetry.Log{Level: telemetry.LevelInfo, Message: text}})
			}
		})
	}
}

// BenchmarkNew is what a command pays that masks little.
func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		redact.New()
	}
}
