// How a page load felt: one event for each load, when the page is hidden for
// the first time, as the detector takes each event for a load. What grows after
// that is not told.
//
// A page that comes back from the back/forward cache is a new load, of which
// only shifts and interactions are told: nothing was loaded, and a timing of
// nearly nothing would spoil the baselines of real loads.

import { onCLS, onFCP, onINP, onLCP, onTTFB, type MetricType } from 'web-vitals';

import { device } from './device.ts';
import { milliseconds, type Vitals } from './event.ts';
import { listen, run } from './guard.ts';
import type { Reporter } from './report.ts';

export class PageLoad {
  private vitals: Vitals = {};
  private told = false;
  private restored = false;
  // In an app of one page, the load is that of the page it began with.
  private url = location.href;

  constructor(private readonly reporter: Reporter) {
    // Before the library, which begins its own new load at the same moment.
    listen(window, 'pageshow', (e) => {
      if (!(e as PageTransitionEvent).persisted) return;
      this.vitals = {};
      this.told = false;
      this.restored = true;
      this.url = location.href;
    });
    const take = (metric: MetricType): void => void run(() => this.take(metric));
    const all = { reportAllChanges: true };
    run(() => onCLS(take, all));
    run(() => onFCP(take, all));
    run(() => onINP(take, all));
    run(() => onLCP(take, all));
    run(() => onTTFB(take, all));
  }

  private take({ name, value, navigationType }: MetricType): void {
    if (!(value >= 0 && isFinite(value)) || (navigationType === 'back-forward-cache') !== this.restored) return;
    if (name === 'CLS') this.vitals.cls = Math.round(value * 1e4) / 1e4;
    else if (name === 'INP') this.vitals.inp_ms = milliseconds(value);
    else if (!this.restored) this.vitals[timings[name]] = milliseconds(value);
  }

  /** Tells of the load, when it was not and there is something to tell. */
  end(): void {
    if (this.told) return;
    if (!this.restored) run(() => this.loaded());
    if (Object.keys(this.vitals).length === 0) return;
    this.told = true;
    this.reporter.tell('vitals', () => ({ ...this.vitals, device: device() }), this.url);
  }

  private loaded(): void {
    const entry = performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming | undefined;
    const activation = (entry as { activationStart?: number } | undefined)?.activationStart ?? 0;
    if (entry && entry.loadEventEnd > 0) this.vitals.load_ms = milliseconds(entry.loadEventEnd - activation);
  }
}

const timings = { FCP: 'fcp_ms', LCP: 'lcp_ms', TTFB: 'ttfb_ms' } as const;
