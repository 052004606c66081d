package ci

import "slices"

// MaxResults is how many results readers see; older ones are dropped.
const MaxResults = 10

// Newest parts stored results into those that readers see and those that no
// longer count. A result is outdated when the next one of its key has the same
// status, which updates it, or when MaxResults newer ones are seen. Stored results
// come oldest first, and both parts are returned in that order.
//
// Without the newest or the oldest of what is stored, no other result becomes
// outdated: readers may see a part of the stream, and a writer that sees it as it
// was a moment ago deletes nothing that still counts.
func Newest[S any](stored []S, result func(S) Result) (newest, outdated []S) {
	next := make(map[string]string, len(stored)) // status of the next result of a key
	for _, s := range slices.Backward(stored) {
		r := result(s)
		key := r.Key()
		updated := next[key] == r.Status
		next[key] = r.Status
		if updated || len(newest) == MaxResults {
			outdated = append(outdated, s)
			continue
		}
		newest = append(newest, s)
	}
	slices.Reverse(newest)
	slices.Reverse(outdated)
	return newest, outdated
}
