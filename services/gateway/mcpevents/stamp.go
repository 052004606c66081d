package mcpevents

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Held says that a request is held open until its client ends it. Such are no
// part of a bound on the requests under way, says SEP-3415.
func Held(r *jsonrpc.Request) bool { return r.Method == methodStream }

// Stamp writes the id of a request for a stream into the request's parameters,
// because the SDK tells handlers no ids, and each notification on the stream has
// to have it. It leaves other requests alone, and takes nil.
func Stamp(r *jsonrpc.Request) {
	if r == nil || r.Method != methodStream || !r.IsCall() {
		return
	}
	params, meta := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	id, err := json.Marshal(r.ID.Raw())
	if err != nil || len(r.Params) > 0 && json.Unmarshal(r.Params, &params) != nil {
		return // the SDK refuses it
	}
	if raw := params["_meta"]; len(raw) > 0 && json.Unmarshal(raw, &meta) != nil || params == nil || meta == nil {
		return
	}
	meta[mcp.MetaKeySubscriptionID] = id
	if params["_meta"], err = json.Marshal(meta); err != nil {
		return
	}
	if stamped, err := json.Marshal(params); err == nil {
		r.Params = stamped
	}
}

// StampBody is Stamp for a message as it stands in the body of an HTTP request.
func StampBody(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"`+methodStream+`"`)) {
		return body
	}
	m, err := jsonrpc.DecodeMessage(body)
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return body
	}
	Stamp(r)
	if stamped, err := jsonrpc.EncodeMessage(r); err == nil {
		return stamped
	}
	return body
}
