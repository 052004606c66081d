// Collects the events of all watchers of the page, limits their rate and encodes them.

import type { Config } from './config.ts';
import { MAX_URL, toEvent, type Kind, type Payloads } from './event.ts';
import { run, takeFaults } from './guard.ts';
import { encode } from './json.ts';
import { Bucket } from './limit.ts';
import type { Sender } from './send.ts';
import { clip } from './text.ts';

/** How many events of one kind a page may send per second, and at once; further ones are counted. */
export const PER_SECOND = 20;
export const BURST = 50;

export class Reporter {
  private readonly buckets: Partial<Record<Kind, Bucket>> = {};
  private reporting = false;

  constructor(
    private readonly config: Config,
    private readonly sender: Sender,
  ) {}

  /**
   * Reports the event that make returns, if any. make, which is expensive, is not called if there
   * are too many events of this kind, or if make itself has led here through the page's code.
   */
  report<K extends Kind>(kind: K, make: () => Payloads[K] | undefined, page?: string): void {
    if (this.reporting) return;
    this.reporting = true;
    try {
      run(() => {
        const bucket = (this.buckets[kind] ??= new Bucket(PER_SECOND, BURST));
        if (!bucket.take(performance.now())) {
          this.sender.lose(1);
          return;
        }
        const payload = make();
        if (payload) this.sender.add(this.encode(kind, payload, page ?? location.href));
      });
    } finally {
      this.reporting = false;
    }
  }

  /** Returns the event with the number of dropped events. */
  notice(lost: number): string {
    const faults = takeFaults();
    const message = `tocsin.js dropped ${lost} events` + (faults ? ` and had ${faults} faults of its own` : '');
    return this.encode('log', { level: 'warn', message }, location.href);
  }

  private encode<K extends Kind>(kind: K, payload: Payloads[K], page: string): string {
    return encode(toEvent(kind, payload, this.config, Date.now(), clip(page, MAX_URL)));
  }
}
