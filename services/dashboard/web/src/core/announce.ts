// Announces new alerts to screen readers: at most one sentence in ten seconds,
// even during a flood of alerts.

import type { Alert } from './alert.ts';
import { cut } from './text.ts';

export const ANNOUNCEMENT_INTERVAL = 10_000; // ms

export class Announcer {
  private counts = { error: 0, warning: 0, info: 0 };
  private worst: Alert | undefined;
  private last = Number.NEGATIVE_INFINITY;

  add(alerts: readonly Alert[]): void {
    for (const alert of alerts) {
      this.counts[alert.severity]++;
      if (alert.severity === 'error' || this.worst?.severity !== 'error') this.worst = alert;
    }
  }

  /** When the next announcement is due, in ms; 0 if there is none. */
  next(now: number): number {
    return this.worst === undefined ? 0 : Math.max(now, this.last + ANNOUNCEMENT_INTERVAL);
  }

  /** Returns and clears the announcement that is due now; empty if there is none. */
  take(now: number): string {
    const worst = this.worst;
    if (worst === undefined || now < this.last + ANNOUNCEMENT_INTERVAL) return '';
    const { error, warning, info } = this.counts;
    const parts = [
      error > 0 ? `${error} ${error === 1 ? 'error' : 'errors'}` : '',
      warning > 0 ? `${warning} ${warning === 1 ? 'warning' : 'warnings'}` : '',
      info > 0 ? `${info} info` : '',
    ].filter((part) => part !== '');
    this.counts = { error: 0, warning: 0, info: 0 };
    this.worst = undefined;
    this.last = now;
    const total = error + warning + info;
    return `${total} new ${total === 1 ? 'alert' : 'alerts'}: ${parts.join(', ')}. ${total === 1 ? '' : 'Last: '}${cut(worst.title, 120)}`;
  }
}
