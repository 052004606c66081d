package toolbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// definitions is what a server offers, and what was left out of it.
type definitions struct {
	tools []Tool
	notes []string
}

// digests returns the digests of the tools by name.
func (d definitions) digests() map[string]string {
	m := make(map[string]string, len(d.tools))
	for _, t := range d.tools {
		m[t.Name] = t.Digest
	}
	return m
}

// pages is mcp.ClientSession's ListTools.
type pages func(ctx context.Context, params *mcp.ListToolsParams) (*mcp.ListToolsResult, error)

// list reads all pages of a list of tools, within the bounds.
func list(ctx context.Context, s Server, next pages) (definitions, error) {
	var d definitions
	var all []*mcp.Tool
	seen := map[string]bool{}
	size := 0
	params := &mcp.ListToolsParams{}
read:
	for page := 1; ; page++ {
		result, err := next(ctx, params)
		if err != nil {
			return definitions{}, err
		}
		for _, t := range result.Tools {
			if t == nil {
				continue
			}
			size += len(t.Description) + len(t.Name)
			if len(all) == MaxTools {
				d.notes = append(d.notes, fmt.Sprintf("the server has over %d tools; those after it are left out", MaxTools))
				break read
			}
			if schema, err := json.Marshal(t.InputSchema); err == nil {
				size += len(schema)
			}
			if size > maxDefinitions {
				d.notes = append(d.notes, fmt.Sprintf("the server's definitions are over %d MiB; those after it are left out", maxDefinitions>>20))
				break read
			}
			all = append(all, t)
		}
		switch {
		case result.NextCursor == "":
			break read
		case seen[result.NextCursor]:
			d.notes = append(d.notes, "the server's list of tools goes round in a circle; it was read once")
			break read
		case page == maxPages:
			d.notes = append(d.notes, fmt.Sprintf("the server's list of tools has over %d pages; those after it are left out", maxPages))
			break read
		}
		seen[result.NextCursor] = true
		params = &mcp.ListToolsParams{Cursor: result.NextCursor}
	}
	d.tools = define(s, all)
	return d, nil
}

// define turns the server's definitions into ours, in its order, each name once.
func define(s Server, all []*mcp.Tool) []Tool {
	index := map[string]int{}
	var tools []Tool
	for _, t := range all {
		defined := defineOne(s, t)
		if i, twice := index[t.Name]; twice {
			if tools[i].Digest != defined.Digest {
				tools[i].Offered, tools[i].WhyNot = false, "the server defines it more than once, and not alike"
			}
			continue
		}
		index[t.Name] = len(tools)
		tools = append(tools, defined)
	}
	return tools
}

func defineOne(s Server, t *mcp.Tool) Tool {
	annotations := mcp.ToolAnnotations{}
	if t.Annotations != nil {
		annotations = *t.Annotations
	}
	schema, schemaErr := json.Marshal(t.InputSchema)
	sum := sha256.New()
	harmless := annotations.DestructiveHint != nil && !*annotations.DestructiveHint
	for _, part := range []string{t.Name, t.Description, string(schema), fmt.Sprint(annotations.ReadOnlyHint, annotations.IdempotentHint, harmless)} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	d := Tool{
		Server:      s.Name,
		Name:        t.Name,
		Description: cutText(masked(s.Mask, t.Description), MaxDescription),
		ReadOnly:    annotations.ReadOnlyHint || Matches(s.ReadOnlyTools, t.Name),
		Repeatable:  annotations.ReadOnlyHint || annotations.IdempotentHint,
		Digest:      hex.EncodeToString(sum.Sum(nil)),
	}
	withhold := func(format string, args ...any) Tool {
		d.WhyNot = fmt.Sprintf(format, args...)
		return d
	}
	switch {
	case t.Name == "":
		return withhold("it has no name")
	case len(t.Name) > maxToolName:
		d.Name = cutText(valid(t.Name), maxToolName)
		return withhold("its name is longer than %d bytes", maxToolName)
	case schemaErr != nil:
		return withhold("its input schema can't be read")
	case len(schema) > MaxSchema:
		return withhold("its input schema has %d bytes; at most %d are taken", len(schema), MaxSchema)
	}
	if t.InputSchema == nil {
		schema = []byte(`{"type":"object"}`)
	}
	object, err := maskSchema(s.Mask, schema)
	switch {
	case err != nil:
		return withhold("%v", err)
	case len(s.Tools) > 0 && !Matches(s.Tools, t.Name):
		d.Schema = object
		return withhold("the server's list tools does not name it")
	case !d.ReadOnly && !s.AllowWrites:
		d.Schema = object
		return withhold("the server does not annotate it with readOnlyHint, and read_only_tools does not name it")
	}
	d.Schema, d.Offered = object, true
	if !d.ReadOnly && !harmless && !Matches(s.NoApproval, t.Name) {
		d.NeedsApproval, d.WhyNot = true, deniedWhy
		d.Description = cutText(d.Description, MaxDescription-len(deniedNote)) + deniedNote
	}
	return d
}

// deniedWhy is why the calls of a tool are denied, and deniedNote is a part of their descriptions.
const (
	deniedWhy  = "each call needs an approval, and approvals are not supported yet: calls are denied"
	deniedNote = " (It may change something: calls are denied, because approvals are not supported yet.)"
)

// Matches reports whether a glob pattern matches a name; a pattern that can't be read matches
// none. A slash in a name is a character like others.
func Matches(patterns []string, name string) bool {
	const slash = "\x01"
	name = strings.ReplaceAll(name, "/", slash)
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(strings.ReplaceAll(p, "/", slash), name)
		return err == nil && ok
	})
}

// maskSchema checks that a schema is an object of type object, and masks its texts.
func maskSchema(mask func(string) string, schema []byte) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("its input schema can't be read")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its input schema is no object")
	}
	if kind, there := object["type"]; !there {
		object["type"] = "object"
	} else if kind != "object" {
		return nil, fmt.Errorf("its input schema describes something else than an object")
	}
	fitProviders(object)
	if !maskTexts(mask, object, 1) {
		return nil, fmt.Errorf("its input schema is nested over %d levels", maxSchemaDepth)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return nil, fmt.Errorf("its input schema can't be written")
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// fitProviders changes a schema into one that all providers take: one tool that they refuse makes
// them refuse the request. OpenAI's APIs want properties, and neither they nor Anthropic's take the
// keywords that are deleted here at the top. The properties in them are kept as optional ones: the
// server checks the arguments itself.
func fitProviders(object map[string]any) {
	properties, ok := object["properties"].(map[string]any)
	if !ok {
		properties = map[string]any{}
		object["properties"] = properties
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := object[keyword].([]any)
		for _, branch := range branches {
			described, _ := branch.(map[string]any)
			more, _ := described["properties"].(map[string]any)
			for name, property := range more {
				if _, there := properties[name]; !there {
					properties[name] = property
				}
			}
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not", "enum"} {
		delete(object, keyword)
	}
}

// contractKeys hold strings that are part of the contract between model and server: a masked one
// would be wrong, and they are no texts.
var contractKeys = map[string]bool{"type": true, "$ref": true, "$schema": true, "$id": true, "$anchor": true,
	"pattern": true, "format": true, "required": true, "contentEncoding": true, "contentMediaType": true}

func maskTexts(mask func(string) string, value any, depth int) bool {
	if depth > maxSchemaDepth {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, ok := inner.(string); ok {
				if !contractKeys[key] {
					v[key] = masked(mask, text)
				}
				continue
			}
			if _, isList := inner.([]any); isList && contractKeys[key] {
				continue
			}
			if !maskTexts(mask, inner, depth+1) {
				return false
			}
		}
	case []any:
		for i, inner := range v {
			if text, ok := inner.(string); ok {
				v[i] = masked(mask, text)
			} else if !maskTexts(mask, inner, depth+1) {
				return false
			}
		}
	}
	return true
}
