package ratelimit

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// MaxApps is how many apps have an account. Past it, the least recently used account is
	// removed, with its count of suppressed alerts.
	MaxApps = 1000
	// AppBurst is how many new alerts of one app may be published at once.
	AppBurst = 50
	// AppRate is how many more of one app may be published each second.
	AppRate = 5
	// AllBurst is how many new alerts of all apps may be published at once.
	AllBurst = 500
	// AllRate is how many more of all apps may be published each second.
	AllRate = 100
	// SummaryDelay is how long after the first suppressed alert of an app its summary is
	// due. The next alert of the app brings the summary earlier.
	SummaryDelay = 10 * time.Second

	// maxSummaryKeys is how many keys an app's summary distinguishes. Past it, each alert
	// counts as a different one.
	maxSummaryKeys = 500

	// stormReserve is the part of the shared bucket that apps in a storm leave to others.
	// unusedReserve is the part for apps that have used nothing. An app that is not in a
	// storm gets a twentieth of what is left beyond it.
	stormReserve  = 150 * one
	unusedReserve = 25 * one
	// one is an alert in the unit of accounts. Both rates are whole numbers of that unit
	// per millisecond.
	one = 1_000_000
	// drainApp and drainAll are what the buckets lose each millisecond.
	drainApp = AppRate * one / 1000
	drainAll = AllRate * one / 1000
	// maxIdle is the time after which every bucket is empty, in milliseconds.
	maxIdle = 60_000
	// maxName and maxExample bound what a snapshot holds, in bytes.
	maxName, maxExample = 1 << 16, 1 << 16
	// maxTotal bounds counts in a snapshot.
	maxTotal = 1 << 40
)

// Budget bounds how many new alerts are published, of each app and of all apps together, and
// counts those that it suppresses. The alerts of an app fill two leaky buckets: its own, and
// one that all apps share.
//
// Apps in a storm leave room in the shared bucket for the alerts of others. An app in a storm
// may use no more than an even part of it. Any other app may use no more than a part of what
// is left (a dynamic threshold, as in shared switch buffers). What drains is divided evenly
// among the apps that filled the bucket.
//
// A Budget is not safe for concurrent use.
type Budget struct {
	accounts *lru.Map[string, *account]
	// filled is the level of the shared bucket, and evictedShare the part of it that evicted
	// accounts filled. undivided is what has drained but is not yet divided among accounts.
	filled, evictedShare, undivided int64
	// users is how many accounts have filled a part of the shared bucket.
	users int64
	// last is the time of the newest call, in milliseconds since 1970.
	last int64
	lost uint64
}

// account is the account of one app.
type account struct {
	// own is the level of the app's own bucket, and shared its part of the shared one.
	own, shared int64
	// stormy reports whether the app is in a storm: from a suppressed alert until its part
	// of the shared bucket has drained.
	stormy     bool
	suppressed backlog
}

// backlog is what the next summary of an app will report.
type backlog struct {
	since      int64          // the first suppressed alert, in milliseconds since 1970
	total      int            // suppressed alerts
	keys       []uint64       // hashes, sorted
	categories []int          // different alerts, in the order of alert.Categories
	severity   alert.Severity // the highest
	examples   []string       // titles
}

// Summary describes the suppressed alerts of one app.
type Summary struct {
	alert.Storm
	// Total is how many alerts were suppressed, including repetitions of a key.
	Total int
	// Severity is the highest one of the suppressed alerts.
	Severity alert.Severity
}

// NewBudget returns an unused Budget.
func NewBudget() *Budget { return &Budget{accounts: lru.New[string, *account](MaxApps)} }

// IsLimited reports whether the budget limits alerts of a category. Others are bounded by
// their subject, such as a page or a CI job.
func IsLimited(c alert.Category) bool {
	switch c {
	case alert.Errors, alert.NetworkErrors, alert.Security, alert.UserFrustration, alert.Kubernetes:
		return true
	default:
		return false
	}
}

// Lost returns how many suppressed alerts were forgotten with their apps since NewBudget.
func (b *Budget) Lost() uint64 { return b.lost }

// AnySuppressed reports whether suppressed alerts of any app wait for a summary.
func (b *Budget) AnySuppressed() bool {
	for _, a := range b.accounts.All() {
		if (*a).suppressed.total > 0 {
			return true
		}
	}
	return false
}

// TryPay reports whether a new alert of an app may be published, and if so fills the buckets.
func (b *Budget) TryPay(app string, now time.Time) bool {
	b.drain(now)
	a := b.account(app)
	if a.own+one > AppBurst*one || a.shared+one > b.share(a) {
		a.stormy = true
		return false
	}
	if a.shared == 0 {
		b.users++
	}
	a.own += one
	a.shared += one
	b.filled += one
	return true
}

// share returns how much of the shared bucket an app may use.
func (b *Budget) share(a *account) int64 {
	left := AllBurst*one - b.filled
	if a.shared == 0 {
		return left
	}
	if a.stormy {
		return min((AllBurst*one-stormReserve)/b.users, left)
	}
	return min(max(AllBurst*one/(b.users+1), (left-unusedReserve)/20), left)
}

// Suppress adds an alert of an app to its next summary. title is called only if the alert
// becomes an example.
func (b *Budget) Suppress(app string, key []byte, c alert.Category, s alert.Severity, title func() string, now time.Time) {
	b.drain(now)
	waiting := &b.account(app).suppressed
	if waiting.total == 0 {
		*waiting = backlog{since: now.UnixMilli(), categories: make([]int, len(alert.Categories()))}
	}
	waiting.total++
	if s.Rank() > waiting.severity.Rank() {
		waiting.severity = s
	}
	if !waiting.addKey(key) {
		return
	}
	waiting.categories[slices.Index(alert.Categories(), c)]++
	if len(waiting.examples) < alert.MaxStormExamples {
		waiting.examples = append(waiting.examples, title())
	}
}

// addKey reports whether a key is not in the backlog yet, and adds it.
func (l *backlog) addKey(key []byte) bool {
	sum := hash(key)
	i, known := slices.BinarySearch(l.keys, sum)
	switch {
	case known:
		return false
	case len(l.keys) < maxSummaryKeys:
		l.keys = slices.Insert(l.keys, i, sum)
	}
	return true
}

// hash is FNV-1a, which is the same in every process.
func hash(key []byte) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	sum := uint64(offset)
	for _, c := range key {
		sum = (sum ^ uint64(c)) * prime
	}
	return sum
}

// HasSuppressed reports whether suppressed alerts of an app wait for a summary.
func (b *Budget) HasSuppressed(app string) bool {
	a := b.accounts.Peek(app)
	return a != nil && (*a).suppressed.total > 0
}

// TakeSummary returns the summary of an app's suppressed alerts and removes them. There must
// be some.
func (b *Budget) TakeSummary(app string) Summary {
	a := *b.accounts.Peek(app)
	taken := a.suppressed
	a.suppressed = backlog{}
	s := Summary{Storm: alert.Storm{Categories: map[alert.Category]int{}, Examples: taken.examples}, Total: taken.total, Severity: taken.severity}
	for i, c := range alert.Categories() {
		if n := taken.categories[i]; n > 0 {
			s.Categories[c] = n
		}
	}
	return s
}

// DueSummaries returns the apps whose suppressed alerts have waited for [SummaryDelay], the
// one with the least recently used account first.
func (b *Budget) DueSummaries(now time.Time) []string {
	var due []string
	t := now.UnixMilli()
	for app, a := range b.accounts.All() {
		waiting := &(*a).suppressed
		if waiting.total == 0 {
			continue
		}
		waiting.since = min(waiting.since, t) // a clock was set back
		if t-waiting.since >= SummaryDelay.Milliseconds() {
			due = append(due, app)
		}
	}
	return due
}

// account finds or opens the account of an app.
func (b *Budget) account(app string) *account {
	if known := b.accounts.Get(app); known != nil {
		return *known
	}
	a := &account{}
	b.add(app, a)
	return a
}

func (b *Budget) add(app string, a *account) {
	if a.shared > 0 {
		b.users++
	}
	if _, evicted := b.accounts.Add(app, a); evicted != nil {
		if evicted.Value.shared > 0 {
			b.users--
		}
		b.evictedShare += evicted.Value.shared
		b.lost += uint64(evicted.Value.suppressed.total)
	}
}

// drain lets time pass for all accounts and removes those that are empty.
func (b *Budget) drain(now time.Time) {
	t := now.UnixMilli()
	passed := min(t-b.last, maxIdle)
	b.last = t
	if passed <= 0 { // the same millisecond, or a clock was set back
		return
	}
	for _, a := range b.accounts.All() {
		(*a).own = max(0, (*a).own-passed*drainApp)
	}
	b.undivided += passed * drainAll
	for b.undivided > 0 && b.divide() { // what one account does not need, the others get
	}
	if b.filled == 0 {
		b.undivided = 0
	}
	for app, a := range b.accounts.All() {
		if (*a).own == 0 && (*a).shared == 0 && (*a).suppressed.total == 0 {
			b.accounts.Delete(app)
		}
	}
}

// divide gives each account that uses the shared bucket an even part of what has drained,
// and reports whether another round could divide more.
func (b *Budget) divide() (more bool) {
	users := b.users
	if b.evictedShare > 0 {
		users++
	}
	if users == 0 || b.undivided < users {
		return false // too little; it is divided later
	}
	part := b.undivided / users
	drainPart := func(level *int64) {
		drained := min(*level, part)
		*level -= drained
		b.filled -= drained
		b.undivided -= drained
		more = more || drained > 0 && drained < part
	}
	drainPart(&b.evictedShare)
	b.users = 0
	for _, a := range b.accounts.All() {
		if drainPart(&(*a).shared); (*a).shared > 0 {
			b.users++
		} else {
			(*a).stormy = false
		}
	}
	return more
}

// State reads or writes all accounts.
func (b *Budget) State(s *snapshot.Codec) {
	snapshot.Int(s, 1, &b.last, snapshot.AnyInt)
	snapshot.Uint(s, 2, &b.evictedShare, AllBurst*one)
	snapshot.Uint(s, 3, &b.undivided, maxIdle*drainAll)
	if s.Reading() {
		b.filled = b.evictedShare
	}
	snapshot.Entries(s, 4, b.accounts, func(s *snapshot.Codec, app *string, a **account) {
		if s.Reading() {
			*a = &account{}
		}
		s.String(1, app, maxName)
		snapshot.Uint(s, 2, &(*a).own, AppBurst*one)
		snapshot.Uint(s, 3, &(*a).shared, AppBurst*one)
		s.Bool(4, &(*a).stormy)
		snapshot.Message(s, 5, &(*a).suppressed, (*backlog).state)
	}, func(app string, a *account) {
		b.filled += a.shared
		b.add(app, a)
	})
}

func (l *backlog) state(s *snapshot.Codec) {
	rank := l.severity.Rank()
	snapshot.Uint(s, 1, &l.total, maxTotal)
	if l.total == 0 {
		return
	}
	snapshot.Int(s, 2, &l.since, snapshot.AnyInt)
	l.keys = s.Hashes(3, l.keys, maxSummaryKeys)
	l.categories = snapshot.Packed(s, 4, l.categories, len(alert.Categories()), maxTotal)
	snapshot.Uint(s, 5, &rank, uint64(len(alert.Severities())))
	snapshot.Strings(s, 6, &l.examples, alert.MaxStormExamples, maxExample)
	if !s.Reading() {
		return
	}
	if rank == 0 || !slices.IsSorted(l.keys) {
		s.Fail("suppressed alerts without a severity, or out of order")
		return
	}
	l.severity = alert.Severities()[rank-1]
	l.categories = append(l.categories, make([]int, len(alert.Categories())-len(l.categories))...)
}
