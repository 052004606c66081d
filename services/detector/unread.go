package detector

// unread bounds how many messages a stream has dropped before a reader of some of
// them got there: its own sequences have gaps, in which others lie. It counts what
// lay in a gap that is gone by now, whosoever it was.
type unread struct {
	last uint64 // that was read
	// gap is after which message the first gap since the last look began, where
	// gapped says that there was one.
	gap    uint64
	gapped bool
	// counted is up to where the stream's beginning has been looked at.
	counted uint64
	// suspect says that there is something to look at: reading was behind, or began
	// anew, since the last look.
	suspect bool
}

// read notes a message, after which behind more were to come.
func (u *unread) read(seq, behind uint64) {
	if seq > u.last+1 && !u.gapped {
		u.gap, u.gapped = u.last, true
	}
	u.last = max(u.last, seq)
	u.suspect = u.suspect || behind > 0
}

// began notes that reading begins, anew or for the first time.
func (u *unread) began() { u.suspect = true }

// look takes the first sequence that the stream has now and returns how many were
// lost at most since the look before.
func (u *unread) look(first uint64) (atMost uint64) {
	from := u.last
	if u.gapped {
		from = u.gap
	}
	from = max(from, u.counted)
	if first > from+1 {
		atMost = first - from - 1
	}
	u.counted = max(u.counted, first-min(first, 1)) // an empty new stream begins at 0
	u.gapped, u.suspect = false, false
	return atMost
}
