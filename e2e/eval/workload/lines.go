package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Class is the class of an event of a workload of lines.
type Class string

// The classes. The class of chatter also names its shape, for example chatter:paths.
const (
	// OfErrors are lines of level error from the app. None may be hidden.
	OfErrors Class = "error"
	// OfRare are lines below level error that occur once or twice.
	OfRare Class = "rare"
	// OfTools are lines of any level from an extension or a development tool.
	OfTools Class = "tool"
	// OfProbes are health checks.
	OfProbes Class = "health"
	// OfWarnings are repeated lines of level warning. In these workloads the app always has
	// an open error, so no rule that was found automatically may hide a warning.
	OfWarnings Class = "warning"

	chatter Class = "chatter:"
)

// Chatter reports whether the class is chatter of the app, of any shape: repeated lines
// below level error.
func (c Class) Chatter() bool { return strings.HasPrefix(string(c), string(chatter)) }

// Shape returns the name of the part that varies.
func (c Class) Shape() string { return strings.TrimPrefix(string(c), string(chatter)) }

const (
	// LearnLines is the time after which a rule should know the chatter.
	LearnLines = 10 * time.Minute
	// chatterLength is the length of a run of lines.
	chatterLength = 2 * time.Hour
	// Rates of other events between the chatter, in events a second.
	oftenRate, twinRate, rareErrorRate, rareRate = 0.2, 0.02, 0.002, 0.005
	toolRate, extensionRate, probeRate           = 0.2, 0.05, 0.2
)

func lineWorkloads(size Size) []Workload {
	var all []Workload
	for _, noise := range []struct {
		rate   float64
		shapes int
	}{{1, 10}, {5, 16}, {20, len(shapes)}, {50, len(shapes)}} {
		all = append(all, Workload{
			Generator: "noisy", Cell: fmt.Sprintf("%g lines/s", noise.rate), Kind: Lines, Runs: size.Chatter,
			make: func(r *rand.Rand) Run { return noisy(r, noise.rate, noise.shapes) },
		})
	}
	return all
}

// noisy returns a run with chatter of a number of sources, at a rate in lines a second, and
// with other lines that must not be hidden.
func noisy(r *rand.Rand, rate float64, sources int) Run {
	run := Run{Length: chatterLength}
	chosen := r.Perm(len(shapes))[:sources]
	// Some sources are louder than others, the i-th by 1/(1+i)^0.7.
	loud, total := make([]float64, sources), 0.0
	for i := range loud {
		total += math.Pow(1+float64(i), -0.7)
		loud[i] = total
	}
	run.lines(r, rate, func() (Class, *telemetry.Event) {
		at, pick := r.Float64()*total, 0
		for loud[pick] < at {
			pick++
		}
		s := &shapes[chosen[pick]]
		return chatter + Class(s.name), line(s.level, s.write(r))
	})
	run.lines(r, oftenRate, func() (Class, *telemetry.Event) {
		return OfErrors, line(telemetry.LevelError, fmt.Sprintf("payment %d was refused: card expired", r.IntN(1e6)))
	})
	// An error with the words of a source of chatter.
	twin := &shapes[chosen[0]]
	run.lines(r, twinRate, func() (Class, *telemetry.Event) {
		return OfErrors, line(telemetry.LevelError, twin.write(r))
	})
	run.lines(r, rareErrorRate, func() (Class, *telemetry.Event) {
		return OfErrors, line(telemetry.LevelError, words(r, 4+r.IntN(8)))
	})
	run.lines(r, rareRate, func() (Class, *telemetry.Event) {
		return OfRare, line(anyOf(r, telemetry.LevelInfo, telemetry.LevelWarn), words(r, 4+r.IntN(8)))
	})
	run.lines(r, toolRate, func() (Class, *telemetry.Event) {
		return OfTools, line(telemetry.LevelDebug, "[vite] hot updated: /src/"+anyOf(r, components...)+".tsx")
	})
	run.lines(r, extensionRate, func() (Class, *telemetry.Event) {
		e := line(telemetry.LevelError, fmt.Sprintf("Uncaught Error: port %d closed", r.IntN(1e5)))
		e.Log.Source = "chrome-extension://fmkadmapgofadopljbjfkapdkoienihi/content.js:1:2"
		return OfTools, e
	})
	run.lines(r, probeRate, func() (Class, *telemetry.Event) {
		return OfProbes, &telemetry.Event{
			Kind: telemetry.KindNetwork, App: App,
			Network: &telemetry.Network{Method: "GET", URL: "http://localhost:8080/healthz", Status: 200},
		}
	})
	return run
}

// lines adds events at a rate, at independent times.
func (run *Run) lines(r *rand.Rand, rate float64, make func() (Class, *telemetry.Event)) {
	for at := float64(0); ; {
		at += r.ExpFloat64() / rate * float64(time.Second)
		if at >= float64(run.Length) {
			return
		}
		class, e := make()
		run.Arrivals = append(run.Arrivals, Arrival{At: ms(at), Event: e, Class: class})
	}
}

func line(level telemetry.Level, message string) *telemetry.Event {
	return &telemetry.Event{Kind: telemetry.KindLog, App: App, Log: &telemetry.Log{Level: level, Message: message}}
}

// shape is a source of chatter: one log statement of a program.
type shape struct {
	name  string
	level telemetry.Level
	write func(*rand.Rand) string
}

const (
	debug = telemetry.LevelDebug
	info  = telemetry.LevelInfo
	warn  = telemetry.LevelWarn
)

var shapes = [...]shape{
	{"numbers", info, func(r *rand.Rand) string {
		return fmt.Sprintf("flushed %d rows in %.2f ms", r.IntN(5000), 40*r.Float64())
	}},
	{"numbers", debug, func(r *rand.Rand) string {
		return fmt.Sprintf("gc %d: heap %d MB, pause %dus", r.IntN(1e5), r.IntN(900), r.IntN(3000))
	}},
	{"ids", info, func(r *rand.Rand) string {
		return fmt.Sprintf("order %d confirmed for customer %d", r.IntN(1e7), r.IntN(1e6))
	}},
	{"ids", debug, func(r *rand.Rand) string {
		return fmt.Sprintf("request req_%08x finished with status %d", r.Uint32(), anyOf(r, 200, 201, 204, 304))
	}},
	{"ids", info, func(r *rand.Rand) string {
		return fmt.Sprintf("consumer c-%d rebalanced to partition %d", r.IntN(64), r.IntN(128))
	}},
	{"uuids", info, func(r *rand.Rand) string { return "session " + uuid(r) + " opened" }},
	{"uuids", debug, func(r *rand.Rand) string {
		return "trace=" + uuid(r) + " span " + fmt.Sprintf("%016x", r.Uint64()) + " exported"
	}},
	{"hex", debug, func(r *rand.Rand) string {
		return fmt.Sprintf("block 0x%x written, sha %016x%016x", r.Uint32(), r.Uint64(), r.Uint64())
	}},
	{"quoted", debug, func(r *rand.Rand) string { return fmt.Sprintf("cache miss for key %q", anyOf(r, people...)+":cart") }},
	{"quoted", warn, func(r *rand.Rand) string {
		return fmt.Sprintf("Unknown prop '%s' on <%s>, it is ignored", anyOf(r, nouns...), anyOf(r, components...))
	}},
	{"names", info, func(r *rand.Rand) string {
		return "user " + anyOf(r, people...) + " logged in from " + anyOf(r, cities...)
	}},
	{"names", info, func(r *rand.Rand) string {
		return anyOf(r, people...) + " joined room " + anyOf(r, nouns...) + " as " + anyOf(r, "guest", "member", "owner")
	}},
	{"names", debug, func(r *rand.Rand) string {
		return "Rendering " + anyOf(r, components...) + " after a change in " + anyOf(r, components...)
	}},
	{"names", warn, func(r *rand.Rand) string {
		return "mail to " + anyOf(r, people...) + " bounced, address of " + anyOf(r, people...) + " is tried instead"
	}},
	{"paths", info, func(r *rand.Rand) string {
		return fmt.Sprintf("GET /api/v2/users/%d/orders/%d 200 %d ms", r.IntN(1e5), r.IntN(1e6), r.IntN(400))
	}},
	{"paths", debug, func(r *rand.Rand) string {
		return fmt.Sprintf("served /var/www/assets/%s/%s.%08x.js from disk", anyOf(r, nouns...), anyOf(r, nouns...), r.Uint32())
	}},
	{"paths", debug, func(r *rand.Rand) string {
		return "watching C:\\Users\\" + anyOf(r, people...) + "\\project\\src\\" + anyOf(r, nouns...) + ".ts"
	}},
	{"urls", info, func(r *rand.Rand) string {
		return fmt.Sprintf("fetched https://%s.example.com/feed/%d?page=%d", anyOf(r, nouns...), r.IntN(1e4), r.IntN(50))
	}},
	{"key=value", info, func(r *rand.Rand) string {
		return fmt.Sprintf("component=scheduler job=%s user=%s took=%dms ok=%t", anyOf(r, nouns...), anyOf(r, people...), r.IntN(900), r.IntN(20) > 0)
	}},
	{"key=value", debug, func(r *rand.Rand) string {
		return fmt.Sprintf("evt=heartbeat host=web-%d load=%.2f up=%dh%dm", r.IntN(12), 4*r.Float64(), r.IntN(400), r.IntN(60))
	}},
	{"json", info, func(r *rand.Rand) string {
		return fmt.Sprintf(`{"event":"page_view","user":"%s","page":"/%s","ms":%d,"bot":%t}`, anyOf(r, people...), anyOf(r, nouns...), r.IntN(2000), r.IntN(5) == 0)
	}},
	{"json", debug, func(r *rand.Rand) string {
		return fmt.Sprintf(`{"ts":%d,"lvl":"dbg","msg":"tick","seq":%d}`, 1_700_000_000_000+r.Int64N(1e11), r.IntN(1e8))
	}},
	{"times", info, func(r *rand.Rand) string {
		return fmt.Sprintf("2026-03-%02dT%02d:%02d:%02d.%03dZ snapshot taken", 1+r.IntN(31), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000))
	}},
	{"addresses", warn, func(r *rand.Rand) string {
		return fmt.Sprintf("slow client 10.%d.%d.%d:%d, %d bytes queued", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(65536), r.IntN(1e6))
	}},
	{"short", debug, func(*rand.Rand) string { return "tick" }},
	{"short", info, func(r *rand.Rand) string { return fmt.Sprintf("ok %d", r.IntN(1000)) }},
	{"constant", warn, func(*rand.Rand) string {
		return "componentWillReceiveProps has been renamed, and is not recommended for use"
	}},
	{"lists", debug, func(r *rand.Rand) string {
		var b strings.Builder
		b.WriteString("reindexed")
		for range 1 + r.IntN(6) {
			fmt.Fprintf(&b, " %s", anyOf(r, nouns...))
		}
		return b.String() + " in the background"
	}},
	{"long", info, func(r *rand.Rand) string {
		return fmt.Sprintf("query plan for %s: seq scan on %s (cost=%.2f..%.2f rows=%d width=%d), then hash join on %s (cost=%.2f..%.2f rows=%d width=%d), then sort by %s; "+
			"planned in %.3f ms and executed in %.3f ms by worker %d on behalf of %s; %s", anyOf(r, nouns...), anyOf(r, nouns...), 100*r.Float64(), 900*r.Float64(),
			r.IntN(1e5), r.IntN(200), anyOf(r, nouns...), 100*r.Float64(), 900*r.Float64(), r.IntN(1e5), r.IntN(200), anyOf(r, nouns...),
			r.Float64(), 100*r.Float64(), r.IntN(16), anyOf(r, people...), strings.Repeat("buffers shared hit=12 read=3 ", 12))
	}},
	{"long", debug, func(r *rand.Rand) string {
		return "state before the reducer ran: " + strings.Repeat(fmt.Sprintf("{id:%d,name:%s} ", r.IntN(1e6), anyOf(r, people...)), 1+r.IntN(20))
	}},
}

// anyOf returns one of several values.
func anyOf[T interface{ ~string | ~int }](r *rand.Rand, values ...T) T {
	return values[r.IntN(len(values))]
}

func uuid(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffff_ffff_ffff)
}

// words returns a line of random words.
func words(r *rand.Rand, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = syllables(r, 2+r.IntN(3))
	}
	return strings.Join(all, " ")
}

func syllables(r *rand.Rand, n int) string {
	const consonants, vowels = "bdfgklmnprstvw", "aeiou"
	b := make([]byte, 0, 2*n)
	for range n {
		b = append(b, consonants[r.IntN(len(consonants))], vowels[r.IntN(len(vowels))])
	}
	return string(b)
}

// Words that programs take from outside.
var (
	people     = pool(1, 400, 2)
	cities     = pool(2, 60, 3)
	nouns      = pool(3, 40, 2)
	components = titled(pool(4, 30, 3))
)

// pool returns distinct words, the same in every run.
func pool(seed uint64, n, length int) []string {
	r := rand.New(rand.NewPCG(seed, 0))
	seen := map[string]bool{}
	all := make([]string, 0, n)
	for len(all) < n {
		if word := syllables(r, length); !seen[word] {
			seen[word] = true
			all = append(all, word)
		}
	}
	return all
}

func titled(words []string) []string {
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:] + "Card"
	}
	return words
}
