// Reports web vitals: one event for each page load, once the page is hidden for the first time.
// The detector counts each event as a load, so later changes are not sent.
//
// A return from the back/forward cache is a new load, with CLS and INP alone: nothing was loaded,
// and timings near zero would distort the baselines of real loads.

import { onCLS, onFCP, onINP, onLCP, onTTFB, type MetricType } from 'web-vitals';

import { device } from './device.ts';
import { milliseconds, type Vitals } from './event.ts';
import { listen, run } from './guard.ts';
import type { Reporter } from './report.ts';

export class PageLoad {
  private vitals: Vitals = {};
  private sent = false;
  private restored = false;
  // The URL at the load: a single-page app changes it later.
  private url = location.href;

  constructor(private readonly reporter: Reporter) {
    // This listener must be before those of web-vitals, which begin a new load on the same event.
    listen(window, 'pageshow', (e) => {
      if (!(e as PageTransitionEvent).persisted) return;
      this.vitals = {};
      this.sent = false;
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

  /** Sends the load, unless it was sent or is empty. */
  end(): void {
    if (this.sent) return;
    if (!this.restored) run(() => this.loaded());
    if (Object.keys(this.vitals).length === 0) return;
    this.sent = true;
    this.reporter.report('vitals', () => ({ ...this.vitals, device: device() }), this.url);
  }

  private loaded(): void {
    const entry = performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming | undefined;
    const activation = (entry as { activationStart?: number } | undefined)?.activationStart ?? 0;
    if (entry && entry.loadEventEnd > 0) this.vitals.load_ms = milliseconds(entry.loadEventEnd - activation);
  }
}

const timings = { FCP: 'fcp_ms', LCP: 'lcp_ms', TTFB: 'ttfb_ms' } as const;
