package report

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Empty reports whether nothing was measured.
func (r *Results) Empty() bool {
	return len(r.Cells) == 0 && len(r.Bounds) == 0 && len(r.NAB) == 0 && len(r.TCPD) == 0
}

// Text returns the tables of the report in columns, for a terminal.
func (r *Results) Text() []byte {
	var markdown, b bytes.Buffer
	r.writeFigures(&markdown)
	r.writeErrors(&markdown)
	r.writeEscalations(&markdown)
	r.writeBounds(&markdown)
	r.writeLoads(&markdown)
	r.writePageShapes(&markdown)
	r.writeLines(&markdown)
	r.writeNAB(&markdown)
	r.writeTCPD(&markdown)
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for line := range strings.Lines(markdown.String()) {
		line = strings.TrimSuffix(line, "\n")
		cells, isRow := strings.CutPrefix(line, "| ")
		switch {
		case strings.HasPrefix(line, "| ---"):
		case isRow:
			fmt.Fprintln(columns, strings.ReplaceAll(strings.TrimSuffix(cells, " |"), " | ", "\t"))
		case strings.HasPrefix(line, "#"):
			_ = columns.Flush() // to a buffer, which never fails
			fmt.Fprintf(&b, "\n%s\n", strings.TrimLeft(line, "# "))
		}
	}
	_ = columns.Flush()
	return b.Bytes()
}
