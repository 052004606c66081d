package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"text/template"

	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// panel is a plot with one row for each workload. A row has a mark with its interval for
// each set of rules, and the target.
type panel struct {
	title string
	// log is set if the axis is logarithmic, from the first tick to end. Values beyond it
	// are drawn at its edge.
	log   bool
	ticks []float64
	end   float64
	rows  []row
}

type row struct {
	label string
	marks []mark
	// target is NaN if there is none.
	target float64
}

type mark struct {
	style int
	e     score.Estimate
}

// The styles of marks: the simple rules, the statistical rules, and the best possible.
const (
	styleSimple = iota
	styleStatistical
	styleBound
)

// style returns the style of some rules.
func style(name string) int {
	switch name {
	case ruleset.RateTail.String(), ruleset.Confirmed.String(), ruleset.Mined.String():
		return styleStatistical
	default:
		return styleSimple
	}
}

// plotted returns a row for each workload with cells that fit.
func (r *Results) plotted(fits func(*run.Cell) bool, value func(*run.Cell) score.Estimate, target func(*run.Cell) float64) (rows []row) {
	for i := range r.Cells {
		c := &r.Cells[i]
		if !fits(c) {
			continue
		}
		name := c.Workload.Name()
		if n := len(rows); n == 0 || rows[n-1].label != name {
			rows = append(rows, row{label: name, target: target(c)})
		}
		if e := value(c); e.Known() {
			last := &rows[len(rows)-1]
			last.marks = append(last.marks, mark{style(c.Rules), e})
		}
	}
	return rows
}

// panels returns the panels that have rows.
func (r *Results) panels() []panel {
	only := func(fits func(*run.Cell) bool, value float64) func(*run.Cell) float64 {
		return func(c *run.Cell) float64 {
			if fits(c) {
				return value
			}
			return math.NaN()
		}
	}
	episodes := func(c *run.Cell) bool { return c.Workload.Kind == workload.Errors && c.Summary.Recall.Known() }
	tenths := []float64{0, 0.2, 0.4, 0.6, 0.8, 1}

	delays := r.plotted(generator("bursts"), func(c *run.Cell) score.Estimate { return c.Summary.P95 }, only(generator("bursts"), 5))
	for i := range delays {
		for _, b := range r.Bounds {
			if delays[i].label == fmt.Sprintf("bursts %g/s", b.Rate) {
				delays[i].marks = append(delays[i].marks, mark{styleBound, b.P95})
			}
		}
	}
	all := []panel{
		{
			"False alerts an app-day, errors", true, []float64{0.1, 1, 10, 100, 1000}, 2000,
			r.plotted(kind(workload.Errors), func(c *run.Cell) score.Estimate { return c.Summary.PerDay }, mostFalse),
		},
		{
			"Recall of episodes of errors", false, tenths, 1,
			r.plotted(episodes, func(c *run.Cell) score.Estimate { return c.Summary.Recall }, func(c *run.Cell) float64 {
				if least, any := leastRecall(c); any {
					return least
				}
				return math.NaN()
			}),
		},
		{"Delay p95 of bursts, s", false, []float64{0, 5, 10, 15}, 15, delays},
		{
			"False alerts in 100 loads that did not change", false, []float64{0, 5, 10, 15, 20}, 20,
			r.plotted(generator("unchanged", "outliers", "devices"), func(c *run.Cell) score.Estimate { return c.Summary.Per100 }, only(named("unchanged cv 0.25"), 0.5)),
		},
		{
			"Recall of deploys within 10 loads", false, tenths, 1,
			r.plotted(generator("deploy"), func(c *run.Cell) score.Estimate { return c.Summary.Recall }, only(named("deploy +30%, cv 0.15"), 0.85)),
		},
		{
			"Share of the chatter that is hidden", false, tenths, 1,
			r.plotted(kind(workload.Lines), func(c *run.Cell) score.Estimate {
				h, _ := c.Lines.Chatter()
				return score.Estimate{Value: h.Share(), Low: h.Share(), High: h.Share(), N: float64(h.Of)}
			}, only(kind(workload.Lines), 0.9)),
		},
	}
	var some []panel
	for _, p := range all {
		if len(p.rows) > 0 {
			some = append(some, p)
		}
	}
	return some
}

// The sizes of the picture, in its units.
const (
	margin, columnWidth, labelWidth = 16, 520, 190
	rowHeight, titleHeight          = 17, 46
	axisHeight, legendHeight        = 26, 34
	radius                          = 4.0
)

//go:embed plot.svg.tmpl
var plotTemplate string

// SVG returns a picture of the results.
func (r *Results) SVG() ([]byte, error) {
	t, err := template.New("plot").Parse(plotTemplate)
	if err != nil {
		return nil, fmt.Errorf("read the template of the picture: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, layout(r.panels())); err != nil {
		return nil, fmt.Errorf("draw the results: %w", err)
	}
	return b.Bytes(), nil
}

// The input of the template.
type (
	drawing struct {
		Width, Height int
		Panels        []drawnPanel
	}
	drawnPanel struct {
		Title                 string
		X, Y, Left, Right     int
		Top, Bottom, TickText int
		Ticks                 []drawnTick
		Rows                  []drawnRow
	}
	drawnTick struct {
		X    string
		Text string
	}
	drawnRow struct {
		Label  string
		Y      int
		Shaded bool
		Target string // empty for none
		Marks  []drawnMark
	}
	drawnMark struct {
		Style        int
		X, Y         string
		Low, High    string
		Diamond, Tip string
	}
)

// layout puts each panel into the column that is shorter so far, and draws it.
func layout(panels []panel) drawing {
	bottoms := [2]int{legendHeight, legendHeight}
	d := drawing{Width: 2*columnWidth + 3*margin}
	for _, p := range panels {
		column := 0
		if bottoms[1] < bottoms[0] {
			column = 1
		}
		x, y := margin+column*(columnWidth+margin), bottoms[column]
		drawn := draw(p, x, y)
		bottoms[column] = drawn.Bottom + axisHeight
		d.Panels = append(d.Panels, drawn)
	}
	d.Height = max(bottoms[0], bottoms[1]) + margin
	return d
}

// draw draws a panel at a position.
func draw(p panel, x, y int) drawnPanel {
	d := drawnPanel{
		Title: p.title, X: x, Y: y + 28, Left: x + labelWidth, Right: x + columnWidth - 12,
		Top: y + titleHeight - 8, Bottom: y + titleHeight + rowHeight*len(p.rows),
	}
	d.TickText = d.Bottom + 14
	at := func(v float64) string { return units(float64(d.Left) + p.fraction(v)*float64(d.Right-d.Left)) }
	for _, v := range p.ticks {
		text := digits(v)
		if p.log && v == p.ticks[0] {
			text = "≤ " + text
		}
		d.Ticks = append(d.Ticks, drawnTick{at(v), text})
	}
	for i, r := range p.rows {
		middle := y + titleHeight + rowHeight*i + rowHeight/2
		drawn := drawnRow{Label: r.label, Y: middle, Shaded: i%2 == 1}
		if !math.IsNaN(r.target) {
			drawn.Target = at(r.target)
		}
		for _, m := range r.marks {
			// Several marks of a row stand above each other, so that all are visible.
			above := float64(middle) + 3.4*float64(m.style-1)
			if len(r.marks) == 1 {
				above = float64(middle)
			}
			cx := float64(d.Left) + p.fraction(m.e.Value)*float64(d.Right-d.Left)
			drawn.Marks = append(drawn.Marks, drawnMark{
				Style: m.style, X: at(m.e.Value), Y: units(above), Low: at(m.e.Low), High: at(m.e.High),
				Diamond: fmt.Sprintf("%s,%s %s,%s %s,%s %s,%s", units(cx-radius), units(above), units(cx), units(above-radius),
					units(cx+radius), units(above), units(cx), units(above+radius)),
				Tip: digits(m.e.Value),
			})
		}
		d.Rows = append(d.Rows, drawn)
	}
	return d
}

// fraction returns where a value lies on the axis, from 0 to 1.
func (p *panel) fraction(v float64) float64 {
	first, last := p.ticks[0], p.end
	v = min(max(v, first), last)
	if p.log {
		return math.Log(v/first) / math.Log(last/first)
	}
	return (v - first) / (last - first)
}

func units(v float64) string { return fmt.Sprintf("%.1f", v) }
