package regression

import (
	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/services/detector/template"
)

// Learned returns a Confirmed that starts from the loads of this rule. They become the
// baselines of loads without a class of devices; each class starts without a baseline.
// Open alerts stay with this rule.
func (p *Pages) Learned() *Confirmed {
	c := NewConfirmed()
	for name, windows := range p.pages.All() {
		page := &classed{}
		for i, w := range (*windows).all() {
			page[i] = &series{Series: changepoint.FromValues(w.oldestFirst())}
		}
		c.add(string(noClass)+name, page)
	}
	return c
}

// Learned returns a Pages that starts from the loads of this rule. Pages does not separate
// classes of devices: a page has the loads of the class with the most, and among equals of
// the one loaded last. Open alerts stay with this rule.
func (c *Confirmed) Learned() *Pages {
	p := New()
	for key, classes := range c.pages.All() {
		windows := &page{}
		if known := p.pages.Peek(key[1:]); known != nil {
			windows = *known
			p.size -= windows.size(key[1:])
		}
		for i, s := range (*classes).seen() {
			w := windows[i]
			if w == nil {
				w = &window{}
				windows[i] = w
			}
			if values := s.Values(); len(values) >= w.n {
				*w = window{}
				for _, v := range values {
					w.add(v)
				}
			}
		}
		p.add(key[1:], windows)
	}
	return p
}

// Loads returns how many loads of a metric on a page are in its baseline, and whether an
// alert about the metric is open.
func (p *Pages) Loads(url, metric string) (loads int, open bool) {
	if page := p.pages.Peek(string(template.AppendPage(nil, url))); page != nil {
		for i, w := range (*page).all() {
			if metrics[i].key == metric {
				return w.n, w.open.Any()
			}
		}
	}
	return 0, false
}

// AnyOpen reports whether any alert is open.
func (p *Pages) AnyOpen() bool {
	for _, page := range p.pages.All() {
		for _, w := range (*page).all() {
			if w.open.Any() {
				return true
			}
		}
	}
	return false
}

// Open reports whether an alert about a metric of a page is open, on any class of devices.
func (c *Confirmed) Open(url, metric string) bool {
	name := string(template.AppendPage(nil, url))
	for _, device := range classes() {
		page := c.pages.Peek(string(rune(classOf(device))) + name)
		if page == nil {
			continue
		}
		for i, s := range (*page).seen() {
			if metrics[i].key == metric && s.open.Any() {
				return true
			}
		}
	}
	return false
}

// AnyOpen reports whether any alert is open.
func (c *Confirmed) AnyOpen() bool {
	for _, page := range c.pages.All() {
		if (*page).open() {
			return true
		}
	}
	return false
}
