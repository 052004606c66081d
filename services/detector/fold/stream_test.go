package fold_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Bounds of the fixed stream.
const (
	streamLength = 4 * time.Hour
	streamHalf   = streamLength / 2
)

// fixedStream returns 4 h of messages of three apps in which every rule finds something:
// always the same ones. The sequence of a message is its index plus 1.
func fixedStream() []fold.Message {
	g := &generator{random: rand.New(rand.NewPCG(16, 2026)), apps: []string{"web", "shop", "billing"}}
	for now := time.Duration(0); now < streamLength; now += time.Second {
		g.now = now
		g.second(int(now / time.Second))
	}
	return g.messages
}

type generator struct {
	random   *rand.Rand
	apps     []string
	now      time.Duration
	messages []fold.Message
}

// add appends a message at a random millisecond of the current second, in order.
func (g *generator) add(m fold.Message) {
	m.Time = start.Add(g.now + time.Duration(g.random.IntN(1000))*time.Millisecond)
	if n := len(g.messages); n > 0 && m.Time.Before(g.messages[n-1].Time) {
		m.Time = g.messages[n-1].Time
	}
	m.Seq = uint64(len(g.messages) + 1)
	g.messages = append(g.messages, m)
}

func (g *generator) event(app string, e telemetry.Event) {
	e.App, e.Session = app, fmt.Sprint("s", g.random.IntN(3))
	e.Release = fmt.Sprintf("1.%d", int(g.now/(40*time.Minute)))
	g.add(fold.Message{Events: []telemetry.Event{e}})
}

func (g *generator) chance(one float64) bool { return g.random.Float64() < one }

func (g *generator) second(s int) {
	for i, app := range g.apps {
		g.logs(app, i, s)
		g.requests(app, i, s)
		if g.chance(0.05) {
			g.load(app, i, s)
		}
		g.rest(app, i, s)
	}
	g.others(s)
}

// logs are chatter, warnings, and errors at a rate with bursts: some at random, some
// every 20 min, and a slow rise in the third hour.
func (g *generator) logs(app string, i, s int) {
	if g.chance(0.2) {
		g.event(app, logged(telemetry.LevelInfo, fmt.Sprintf("user %d opened order %d", g.random.IntN(500), g.random.IntN(9000))))
	}
	if g.chance(0.02) {
		g.event(app, logged(telemetry.LevelWarn, fmt.Sprintf("retry %d of queue %c", g.random.IntN(5), 'a'+rune(g.random.IntN(8)))))
	}
	rate := 0.05
	switch {
	case i == 0 && s%1200 >= 900 && s%1200 < 920: // recurs every 20 min
		rate = 2
	case i == 1 && s > 7300 && s < 11500: // a drift
		rate = 0.15
	case (s+700*i)%3700 < 45 && s > 1000: // bursts
		rate = 3
	}
	for g.chance(min(rate, 0.95)) {
		rate--
		e := logged(telemetry.LevelError, fmt.Sprintf("order %d failed in step %c", g.random.IntN(100), 'a'+rune(g.random.IntN(4))))
		if g.chance(0.3) {
			e.Log.Stack = stack(g.random.IntN(6))
		}
		g.event(app, e)
	}
	if i == 2 && s%1800 < 30 && g.chance(0.7) { // one error escalates
		g.event(app, logged(telemetry.LevelError, "payment declined by gateway"))
	}
	if g.chance(0.0005) { // a new error
		word := []byte("nnnnn")
		for at := range word {
			word[at] = 'a' + byte(g.random.IntN(26))
		}
		g.event(app, logged(telemetry.LevelError, "cannot open "+string(word)))
	}
}

func (g *generator) requests(app string, i, s int) {
	if !g.chance(0.3) {
		return
	}
	status := 200
	bad := 0.03
	if (s+1000*i)%5000 < 40 {
		bad = 0.9
	}
	if g.chance(bad) {
		status = []int{500, 503, 0, 401, 404, 429}[g.random.IntN(6)]
	}
	e := requested([]string{"GET", "POST"}[g.random.IntN(2)], fmt.Sprintf("/api/orders/%d/%c?q=%d", g.random.IntN(50), 'a'+rune(g.random.IntN(3)), s), status)
	e.URL = "http://localhost:3000/cart"
	g.event(app, e)
}

// load is a page load; pages regress for a while, for one class of devices or for all.
func (g *generator) load(app string, i, s int) {
	page := g.random.IntN(3)
	factor := 0.9 + 0.2*g.random.Float64()
	device := []telemetry.Device{"", telemetry.Devices()[0], telemetry.Devices()[1]}[g.random.IntN(3)]
	if (s+1500*page+600*i)%6000 < 1200 && (page != 2 || device != "") {
		factor *= 1.8
	}
	if g.chance(0.02) {
		factor *= 3
	}
	lcp, cls := 1500*factor, 0.1*factor
	v := &telemetry.Vitals{LCP: &lcp, Device: device}
	if page == 1 {
		v.CLS = &cls
	}
	g.event(app, telemetry.Event{Kind: telemetry.KindVitals, URL: fmt.Sprintf("http://localhost:3000/page-%c/%d", 'a'+rune(page), s), Vitals: v})
}

func (g *generator) rest(app string, i, s int) {
	switch {
	case g.chance(0.003):
		for range 4 {
			g.event(app, clicked("#pay"))
		}
	case g.chance(0.001):
		for range 3 {
			g.event(app, telemetry.Event{Kind: telemetry.KindAction, Action: &telemetry.Action{Type: telemetry.ActionSubmit, Target: "form"}})
		}
	case g.chance(0.005):
		e := memory(float64(40 + g.random.IntN(60)))
		g.event(app, e.Events[0])
	case g.chance(0.002):
		e := circuit([]string{"db", "mail"}[g.random.IntN(2)], []string{"open", "half_open", "closed"}[g.random.IntN(3)])
		g.event(app, e.Events[0])
	case g.chance(1e-3):
		g.event(app, telemetry.Event{Kind: telemetry.KindSecurity, Security: &telemetry.Security{Type: "csp", BlockedURL: fmt.Sprintf("https://evil%d.example", g.random.IntN(3))}})
	case i == 0 && s%7000 == 3500: // a storm of different errors
		for n := range 80 {
			g.event(app, requested("GET", fmt.Sprintf("/storm/%c%c", 'a'+rune(n%26), 'a'+rune(n/26)), 500))
		}
	}
}

// others are CI results, alerts of other systems, and commands to the noise rules.
func (g *generator) others(s int) {
	if s%300 == 17 {
		status := ci.StatusSuccess
		if g.chance(0.4) {
			status = ci.StatusFailure
		}
		g.add(fold.Message{CI: &ci.Result{Status: status, Source: ci.SourceCustom, Name: []string{"build", "lint"}[g.random.IntN(2)], Ref: "main", Commit: fmt.Sprintf("c%d", s/900)}})
	}
	if s%400 == 31 {
		state := []string{external.StateFiring, external.StateResolved}[g.random.IntN(2)]
		g.add(fold.Message{External: []external.Alert{{
			Source: alert.SourceKubernetes, Key: fmt.Sprint("k", g.random.IntN(3)), State: state, Severity: alert.Error, App: "shop", Episode: fmt.Sprint(s / 4000),
			Fault: &external.Fault{Cluster: "dev", Kind: "Pod", Name: "p1", Namespace: "shop", Fault: "crash"},
		}}})
	}
	if s%4500 == 2000 {
		g.add(fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAdd, App: "shop", Kind: telemetry.KindLog, Pattern: fmt.Sprintf("queue %c", 'a'+rune(s/4500))}})
	}
	if s%2500 == 1500 {
		g.add(fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseAutoDetect}})
	}
}
