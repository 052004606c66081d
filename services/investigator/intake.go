package investigator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// maxBody bounds the body of POST /alerts.
const maxBody = 4 << 20

// Bounds of the servers that an alert chooses.
const (
	maxServers = 50
	maxTools   = 500
)

func (h *handler) submit(r *http.Request, b *backend) (httpserve.Answer, error) {
	if err := withoutParameters(r); err != nil {
		return httpserve.Answer{}, err
	}
	author, err := h.proxies.author(r)
	if err != nil {
		return httpserve.Answer{}, err
	}
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) > 1 {
		return httpserve.Answer{}, badRequest("the header Idempotency-Key is given twice")
	}
	body, err := readJSON(r, maxBody, false)
	if err != nil {
		return httpserve.Answer{}, err
	}
	request, err := parseSubmission(body)
	if err != nil {
		return httpserve.Answer{}, err
	}
	request.Author = author
	if len(keys) == 1 {
		if err := checkIdempotencyKey(keys[0]); err != nil {
			return httpserve.Answer{}, err
		}
		request.IdempotencyKey, request.BodyDigest = keys[0], digestOf(body)
	}
	answer, err := b.submitter.Submit(r.Context(), request)
	if err != nil {
		return httpserve.Answer{}, err
	}
	if answer.Joined() {
		return httpserve.JSON(http.StatusOK, answer)
	}
	return httpserve.JSON(http.StatusAccepted, answer)
}

// readJSON reads the body of a request, which must be sent as JSON unless it may be empty, and is.
func readJSON(r *http.Request, limit int64, mayBeEmpty bool) ([]byte, error) {
	types := r.Header.Values("Content-Type")
	isJSON := false
	if len(types) == 1 {
		media, _, err := mime.ParseMediaType(types[0])
		isJSON = err == nil && media == "application/json"
	}
	refusal := httpserve.Refuse(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
	if !isJSON && (len(types) > 0 || !mayBeEmpty) {
		return nil, refusal
	}
	body, err := httpserve.ReadBody(r, limit)
	switch {
	case err != nil:
		return nil, err
	case !isJSON && len(body) > 0:
		return nil, refusal
	case !utf8.Valid(body):
		return nil, badRequest("the body is not UTF-8")
	}
	return body, nil
}

// parseSubmission reads the body of POST /alerts.
func parseSubmission(body []byte) (r Request, err error) {
	var mcp json.RawMessage
	var data json.RawMessage
	texts := map[string]*string{
		"alert_type": &r.AlertType, "chain": &r.Chain, "alert_id": &r.AlertID, "runbook": &r.Runbook,
		"slack_message_fingerprint": &r.Fingerprint, "dedup_key": &r.DedupKey,
	}
	fields, err := decodeObject(body, "alert_type", "chain", "data", "alert_id", "runbook", "mcp", "slack_message_fingerprint", "dedup_key")
	if err != nil {
		return r, err
	}
	for name, raw := range fields {
		switch {
		case isNull(raw):
		case name == "mcp":
			mcp = raw
		case name == "data":
			data = raw
		default:
			if json.Unmarshal(raw, texts[name]) != nil {
				return r, badRequest("%s must be a string", name)
			}
		}
	}
	if data != nil {
		if r.Data, err = dataText(data); err != nil {
			return r, err
		}
	}
	if raw, ok := fields["alert_id"]; ok && !isNull(raw) && r.AlertID == "" {
		return r, badRequest("alert_id is empty: name a stored alert, or leave it out")
	}
	if mcp != nil {
		if r.Servers, err = parseServers(mcp); err != nil {
			return r, err
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, mcp); err != nil {
			return r, badRequest("mcp is not JSON: %v", err)
		}
		r.Selection = compact.Bytes()
	}
	return r, nil
}

// dataText returns the alert's data as text: a string, or an object as compact JSON.
func dataText(raw json.RawMessage) (text string, err error) {
	switch raw[0] {
	case '"':
		err = json.Unmarshal(raw, &text)
	case '{':
		var compact bytes.Buffer
		err = json.Compact(&compact, raw)
		text = compact.String()
	default:
		return "", badRequest("data must be a string or an object")
	}
	if err != nil {
		return "", badRequest("data is not JSON: %v", err)
	}
	if isEmptyData(text) {
		return "", badRequest("data is empty: send what is known of the alert")
	}
	return text, nil
}

// parseServers reads {"servers":[{"name","tools":[]}]}.
func parseServers(raw json.RawMessage) ([]config.Selection, error) {
	fields, err := decodeObjectAt("mcp", raw, "servers")
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if list, err = decodeList("mcp.servers", fields["servers"], maxServers); err != nil {
		return nil, err
	}
	var servers []config.Selection
	for i, raw := range list {
		at := fmt.Sprintf("mcp.servers[%d]", i)
		fields, err := decodeObjectAt(at, raw, "name", "tools")
		if err != nil {
			return nil, err
		}
		var s config.Selection
		if json.Unmarshal(fields["name"], &s.Name) != nil || s.Name == "" {
			return nil, badRequest("%s.name must be the name of a server", at)
		}
		if slices.ContainsFunc(servers, func(other config.Selection) bool { return other.Name == s.Name }) {
			return nil, badRequest("%s names %q a second time", at, s.Name)
		}
		tools, err := decodeList(at+".tools", fields["tools"], maxTools)
		if err != nil {
			return nil, err
		}
		for j, raw := range tools {
			var tool string
			if json.Unmarshal(raw, &tool) != nil || tool == "" {
				return nil, badRequest("%s.tools[%d] must be the name of a tool", at, j)
			}
			if len(tool) > maxName {
				return nil, badRequest("%s.tools[%d] may have %d bytes", at, j, maxName)
			}
			s.Tools = append(s.Tools, tool)
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// decodeList returns the elements of an array, none where it is missing or null.
func decodeList(name string, raw json.RawMessage, limit int) (list []json.RawMessage, err error) {
	if isNull(raw) {
		return nil, nil
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil, badRequest("%s must be a list", name)
	}
	if len(list) > limit {
		return nil, badRequest("%s may have %d elements", name, limit)
	}
	return list, nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// decodeObject returns the fields of the object that is the body of a request. A field that is not
// known, or given twice, is refused.
func decodeObject(body []byte, known ...string) (map[string]json.RawMessage, error) {
	return decodeObjectAt("the body", body, known...)
}

func decodeObjectAt(name string, raw []byte, known ...string) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(raw))
	token, err := d.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil, badRequest("%s is empty: send a JSON object", name)
	case err != nil:
		return nil, badRequest("%s is not JSON: %v", name, err)
	case token != json.Delim('{'):
		return nil, badRequest("%s must be a JSON object", name)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, badRequest("%s is not JSON: %v", name, err)
		}
		field, _ := token.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, badRequest("%s is not JSON: in %q: %v", name, field, err)
		}
		if _, twice := fields[field]; twice {
			return nil, badRequest("%s has the field %q twice", name, field)
		}
		if !slices.Contains(known, field) {
			if len(known) == 0 {
				return nil, badRequest("%s has an unknown field %q: there are none", name, field)
			}
			return nil, badRequest("%s has an unknown field %q: the fields are %s", name, field, strings.Join(known, ", "))
		}
		fields[field] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, badRequest("%s is not JSON: %v", name, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest("%s has something after the JSON object", name)
	}
	return fields, nil
}
