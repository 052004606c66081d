package session

// Assume folds facts that are about to be stored as the session's next message, so that what
// follows from them can be stored with them. Where they are not stored in the end, the state is
// wrong: fold the stored messages again. Otherwise [Session.Stored] follows.
func (s *Session) Assume(facts []Fact) error {
	if s.plan == nil && (len(facts) == 0 || facts[0].Submitted == nil) {
		return ErrNotSubmitted
	}
	for i := range facts {
		s.apply(&facts[i])
	}
	return nil
}

// Stored sets the stream sequence of the message in which assumed facts were stored.
func (s *Session) Stored(seq uint64) { s.seq = max(s.seq, seq) }

// Attempt returns the number of the attempt, from 1. Each retry begins another one.
func (s *Session) Attempt() int { return s.attempt }

// Running is an execution that has not ended.
type Running struct {
	Execution string
	Servers   []Server
	// Listed reports whether the tools of its servers are known.
	Listed bool
}

// Running returns the executions that have not ended.
func (s *Session) Running() []Running {
	var list []Running
	for _, e := range s.running() {
		list = append(list, Running{Execution: e.id, Servers: e.agent.Servers, Listed: e.listed != nil})
	}
	return list
}
