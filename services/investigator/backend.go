package investigator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// backend is what requests need of one connection to the bus: reading, changing and submitting
// sessions.
type backend struct {
	journal   *journal.Journal
	texts     *journal.TextStore
	log       *sessionLog
	index     *index
	submitter *submitter
	revisions *revisions
	config    func() *config.Config
	logger    *slog.Logger
}

// backendConfig configures a backend.
type backendConfig struct {
	session *bus.Session
	config  func() *config.Config
	// alerts finds the stored alerts that requests name.
	alerts alertFinder
	// mask masks the text of an alert.
	mask func(string) string
	// appended is called for every message of a session. It may be nil.
	appended func(id string, seq uint64)
	logger   *slog.Logger
}

func newBackend(cfg backendConfig) (*backend, error) {
	j := journal.New(cfg.session, cfg.logger)
	texts, err := j.Texts()
	if err != nil {
		return nil, fmt.Errorf("open the texts of sessions: %w", err)
	}
	b := &backend{
		journal: j, texts: texts, log: newSessionLog(j, time.Now), index: newIndex(j, cfg.logger, cfg.appended),
		config: cfg.config, logger: cfg.logger,
	}
	b.submitter = &submitter{
		journal: j, texts: texts, log: b.log, index: b.index, config: cfg.config, alerts: cfg.alerts,
		mask: cfg.mask, joins: newJoins(b.log, time.Now, cfg.logger), now: time.Now, logger: cfg.logger, underWay: map[string]admitted{},
		keys: map[string]chan struct{}{}, queueWithin: enqueueTimeout,
	}
	return b, nil
}

// run keeps the lists up to date until ctx ends. Then it writes the counts that are left.
func (b *backend) run(ctx context.Context) error {
	defer b.submitter.joins.close()
	return b.index.follow(ctx)
}
