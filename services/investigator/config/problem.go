package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or superfluous, in a file.
type Problem struct {
	File string
	Line int    // 0 where no line is to blame
	Path string // of the key, such as agent_chains.kubernetes.stages[0].name, or nothing
	Text string
}

// String returns file:line: path: text.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Path != "" {
		b.WriteString(": " + p.Path)
	}
	return b.String() + ": " + p.Text
}

// maxShown bounds the problems in one message.
const maxShown = 100

// Errors is everything that is wrong with a file, in the order of its lines.
type Errors []Problem

// Error returns one line for each problem, at most 100.
func (e Errors) Error() string { return lines(e) }

// Warnings is what has no effect in a file, or a risk.
type Warnings []Problem

// String returns one line for each warning, at most 100.
func (w Warnings) String() string { return lines(w) }

func lines(problems []Problem) string {
	var b strings.Builder
	for i, p := range problems {
		if i == maxShown {
			fmt.Fprintf(&b, "\nand %d more", len(problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(problems)
}
