package events

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stamp writes the id of a request for a stream into the request's parameters,
// because the SDK tells handlers no ids, and each notification on the stream has
// to have it. It leaves other requests alone.
func Stamp(r *jsonrpc.Request) {
	if r.Method != methodStream || !r.IsCall() {
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
