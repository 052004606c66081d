package mcpevents

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// IsStream reports whether a request opens a stream, which lasts until the client ends it.
// Streams do not count towards a bound on concurrent requests (SEP-3415).
func IsStream(r *jsonrpc.Request) bool { return r.Method == methodStream }

// SetSubscriptionID adds the id of a request that opens a stream to its parameters: each
// notification on the stream must have it, and the SDK does not pass it to handlers. Other
// requests and nil stay as they are.
func SetSubscriptionID(r *jsonrpc.Request) {
	if r == nil || r.Method != methodStream || !r.IsCall() {
		return
	}
	params, meta := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	id, err := json.Marshal(r.ID.Raw())
	if err != nil || len(r.Params) > 0 && json.Unmarshal(r.Params, &params) != nil {
		return // the SDK refuses the request
	}
	if raw := params["_meta"]; len(raw) > 0 && json.Unmarshal(raw, &meta) != nil || params == nil || meta == nil {
		return
	}
	meta[mcp.MetaKeySubscriptionID] = id
	if params["_meta"], err = json.Marshal(meta); err != nil {
		return
	}
	if data, err := json.Marshal(params); err == nil {
		r.Params = data
	}
}

// SetSubscriptionIDInBody is SetSubscriptionID for the body of an HTTP request.
func SetSubscriptionIDInBody(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"`+methodStream+`"`)) {
		return body
	}
	m, err := jsonrpc.DecodeMessage(body)
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return body
	}
	SetSubscriptionID(r)
	if data, err := jsonrpc.EncodeMessage(r); err == nil {
		return data
	}
	return body
}
