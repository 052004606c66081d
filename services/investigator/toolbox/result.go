package toolbox

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// resultText returns what a model can read of a result. What is no text becomes a note.
func resultText(r *mcp.CallToolResult) string {
	var parts []string
	hasText := false
	for _, content := range r.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
			hasText = hasText || c.Text != ""
		case *mcp.ImageContent:
			parts = append(parts, note("image", c.MIMEType, len(c.Data)))
		case *mcp.AudioContent:
			parts = append(parts, note("audio", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			parts = append(parts, fmt.Sprintf("[link to %s, %s, not read]", c.URI, c.Name))
		case *mcp.EmbeddedResource:
			switch {
			case c.Resource == nil:
			case c.Resource.Blob != nil:
				parts = append(parts, note("resource "+c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob)))
			default:
				parts = append(parts, c.Resource.Text)
				hasText = hasText || c.Resource.Text != ""
			}
		default:
			parts = append(parts, "[content of an unknown kind, not shown]")
		}
	}
	if !hasText && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(b))
		}
	}
	text := strings.Join(parts, "\n")
	if text == "" {
		return "[the tool answered without content]"
	}
	return text
}

func note(kind, mimeType string, size int) string {
	if mimeType == "" {
		mimeType = "unknown type"
	}
	return fmt.Sprintf("[%s, %s, %d bytes, not shown]", kind, mimeType, size)
}
