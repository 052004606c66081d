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
	// AppRate is how many more may be published each second.
	AppRate = 5
	// AllBurst is how many new alerts of all apps may be published at once.
	AllBurst = 500
	// AllRate is how many more may be published each second.
	AllRate = 100
	// SummaryDelay is how long after the first suppressed alert of an app its summary is
	// published, unless another alert of the app is published before.
	SummaryDelay = 10 * time.Second

	// maxSummaryKeys is how many keys an app's summary distinguishes. Past it each alert
	// counts as a different one.
	maxSummaryKeys = 500

	// stormReserve is the part of the shared bucket that apps in a storm leave to others.
	// unusedReserve is the part for apps that have used nothing; another app without a storm
	// gets a twentieth of what is left beyond it.
	stormReserve  = 150 * one
	unusedReserve = 25 * one
	// one is an alert in the unit of accounts, in which both rates are whole numbers per
	// millisecond.
	one     = 1_000_000
	perApp  = AppRate * one / 1000
	perAll  = AllRate * one / 1000
	maxIdle = 60_000 // by then every account is empty, in milliseconds
	// maxName and maxExample bound what a snapshot holds, in bytes.
	maxName, maxExample = 1 << 16, 1 << 16
	// maxTotal bounds counts in a snapshot.
	maxTotal = 1 << 40
)

// Budget bounds how many new alerts are published, of each app and of all apps together,
// and counts those that it suppresses. Every app pays for its alerts from two leaky
// buckets: its own, and one that all apps share.
//
// The shared bucket is divided evenly. An app in a storm gets no more than an even part of
// it, and any app no more than is left for the next one (a dynamic threshold, as in shared
// switch buffers). What drains is divided evenly among the apps that filled it. So apps in
// a storm leave room for the alerts of others.
//
// A Budget is not safe for concurrent use.
type Budget struct {
	accounts *lru.Map[string, *account]
	// filled is the level of the shared bucket, evictedShare the part of it that evicted
	// accounts filled. undivided has drained and is not yet divided among the accounts.
	filled, evictedShare, undivided int64
	// users is how many accounts use the shared bucket.
	users int64
	// last is the time of the newest call, in milliseconds since 1970.
	last int64
	lost uint64
}

// account is what an app used of both buckets and what was suppressed of it. stormy is true from
// the first alert suppressed until its part of the shared bucket has drained.
type account struct {
	own, shared int64
	stormy      bool
	suppressed  backlog
}

// backlog counts the alerts of an account that were suppressed since a time in milliseconds
// since 1970.
type backlog struct {
	since      int64
	total      int
	keys       []uint64 // hashes, sorted
	categories []int    // different alerts, in the order of alert.Categories
	severity   alert.Severity
	examples   []string
}

// Summary describes what was suppressed of one app.
type Summary struct {
	alert.Storm
	// Total is how many alerts were suppressed, repetitions of a key included.
	Total int
	// Severity is the highest.
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

// AnySuppressed reports whether the alerts of any app are suppressed.
func (b *Budget) AnySuppressed() bool {
	for _, a := range b.accounts.All() {
		if (*a).suppressed.total > 0 {
			return true
		}
	}
	return false
}

// TryPay reports whether a new alert of an app may be published, and if so pays for it.
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

// Suppress counts an alert of an app that is suppressed. title is called only if the alert
// becomes an example.
func (b *Budget) Suppress(app string, key []byte, c alert.Category, s alert.Severity, title func() string, now time.Time) {
	b.drain(now)
	h := &b.account(app).suppressed
	if h.total == 0 {
		*h = backlog{since: now.UnixMilli(), categories: make([]int, len(alert.Categories()))}
	}
	h.total++
	if s.Rank() > h.severity.Rank() {
		h.severity = s
	}
	if !h.addKey(key) {
		return
	}
	h.categories[slices.Index(alert.Categories(), c)]++
	if len(h.examples) < alert.MaxStormExamples {
		h.examples = append(h.examples, title())
	}
}

// addKey reports whether a key is suppressed for the first time, and remembers it.
func (h *backlog) addKey(key []byte) bool {
	sum := hash(key)
	i, known := slices.BinarySearch(h.keys, sum)
	switch {
	case known:
		return false
	case len(h.keys) < maxSummaryKeys:
		h.keys = slices.Insert(h.keys, i, sum)
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

// HasSuppressed reports whether alerts of an app are suppressed.
func (b *Budget) HasSuppressed(app string) bool {
	a := b.accounts.Peek(app)
	return a != nil && (*a).suppressed.total > 0
}

// TakeSummary returns what is suppressed of an app and resets it. Something must be suppressed.
func (b *Budget) TakeSummary(app string) Summary {
	a := *b.accounts.Peek(app)
	h := a.suppressed
	a.suppressed = backlog{}
	s := Summary{Storm: alert.Storm{Categories: map[alert.Category]int{}, Examples: h.examples}, Total: h.total, Severity: h.severity}
	for i, c := range alert.Categories() {
		if n := h.categories[i]; n > 0 {
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
		h := &(*a).suppressed
		if h.total == 0 {
			continue
		}
		h.since = min(h.since, t) // a clock was set back
		if t-h.since >= SummaryDelay.Milliseconds() {
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
		(*a).own = max(0, (*a).own-passed*perApp)
	}
	b.undivided += passed * perAll
	for b.undivided > 0 && b.divide() { // what one account has no use for, the others get
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
		return false // it is kept for the next time
	}
	part := b.undivided / users
	payBack := func(owed *int64) {
		paid := min(*owed, part)
		*owed -= paid
		b.filled -= paid
		b.undivided -= paid
		more = more || paid > 0 && paid < part
	}
	payBack(&b.evictedShare)
	b.users = 0
	for _, a := range b.accounts.All() {
		if payBack(&(*a).shared); (*a).shared > 0 {
			b.users++
		} else {
			(*a).stormy = false
		}
	}
	return more
}

// State has all accounts.
func (b *Budget) State(s *snapshot.State) {
	snapshot.Int(s, 1, &b.last, snapshot.AnyInt)
	snapshot.Uint(s, 2, &b.evictedShare, AllBurst*one)
	snapshot.Uint(s, 3, &b.undivided, maxIdle*perAll)
	if s.Reading() {
		b.filled = b.evictedShare
	}
	snapshot.Entries(s, 4, b.accounts, func(s *snapshot.State, app *string, a **account) {
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

func (h *backlog) state(s *snapshot.State) {
	rank := h.severity.Rank()
	snapshot.Uint(s, 1, &h.total, maxTotal)
	if h.total == 0 {
		return
	}
	snapshot.Int(s, 2, &h.since, snapshot.AnyInt)
	h.keys = s.Hashes(3, h.keys, maxSummaryKeys)
	h.categories = snapshot.Packed(s, 4, h.categories, len(alert.Categories()), maxTotal)
	snapshot.Uint(s, 5, &rank, uint64(len(alert.Severities())))
	snapshot.Strings(s, 6, &h.examples, alert.MaxStormExamples, maxExample)
	if !s.Reading() {
		return
	}
	if rank == 0 || !slices.IsSorted(h.keys) {
		s.Fail("suppressed alerts without a severity, or out of order")
		return
	}
	h.severity = alert.Severities()[rank-1]
	h.categories = append(h.categories, make([]int, len(alert.Categories())-len(h.categories))...)
}
