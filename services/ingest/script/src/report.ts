// Where all that watches the page hands in what it saw.

import type { Config } from './config.ts';
import { MAX_URL, toEvent, type Kind, type Payloads } from './event.ts';
import { run, takeFaults } from './guard.ts';
import { encode } from './json.ts';
import { Bucket } from './limit.ts';
import type { Sender } from './send.ts';
import { clip } from './text.ts';

/** Events of one kind that a page may tell a second, and at once; beyond, they are counted. */
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
   * Tells of an event, unless there are too many of its kind: then make, which
   * costs most, is not called. It is not called either when the page's code,
   * run by make, comes back here. make returns undefined for what is no event.
   */
  tell<K extends Kind>(kind: K, make: () => Payloads[K] | undefined, page?: string): void {
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

  /** The event that says how many are missing. */
  notice(lost: number): string {
    const faults = takeFaults();
    const message = `tocsin.js dropped ${lost} events` + (faults ? ` and had ${faults} faults of its own` : '');
    return this.encode('log', { level: 'warn', message }, location.href);
  }

  private encode<K extends Kind>(kind: K, payload: Payloads[K], page: string): string {
    return encode(toEvent(kind, payload, this.config, Date.now(), clip(page, MAX_URL)));
  }
}
