package notifier

// Full says that the next alert may find no room in the pending batch and be
// dropped. Who can let alerts wait elsewhere offers none as long as that holds.
func (s *Stream) Full() bool { return s.pending.Len() >= maxPending }
