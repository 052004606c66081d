package bus

// The parts of JetStream's own interface that this package uses. A role may use
// them on a stream whose subjects its permissions list.
const (
	apiDirectGet = "$JS.API.DIRECT.GET."
	apiDelete    = "$JS.API.STREAM.MSG.DELETE."
	apiInfo      = "$JS.API.STREAM.INFO."
	apiCreate    = "$JS.API.STREAM.CREATE."
	apiUpdate    = "$JS.API.STREAM.UPDATE."
)

// The statuses of an answer without a message.
const (
	statusEnd   = "204"
	statusEmpty = "404"
	// statusNoResponders means that the stream is missing or allows no direct gets.
	statusNoResponders = "503"
)

// headerPending is the number of messages that follow in a stream after one of a batch.
const headerPending = "Nats-Num-Pending"

// Error codes of JetStream that the client library has no names for.
const (
	codeNoPeers              = 10005
	codeInsufficientResource = 10023
	codeSequenceNotFound     = 10043
	codeReplicasNotSupported = 10074
)

// What the store says of a message that is not there.
const (
	storeNoMessage = "no message found"
	storeEOF       = "stream store EOF"
)

// getRequest asks for messages of a stream by direct get: for Batch of them from Seq
// on, or for the newest one of the subject LastFor.
type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	LastFor  string `json:"last_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// deleteRequest asks to delete one message of a stream.
type deleteRequest struct {
	Seq uint64 `json:"seq"`
	// NoErase leaves the bytes of the message on the disk until they are compacted.
	NoErase bool `json:"no_erase,omitempty"`
}
