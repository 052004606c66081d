// Keeps the page's alerts whole: what came live, what was there before, and
// what was missed in between, each once.
//
// It decides what to ask the service for next, and notices when the bus came
// back with another stream: one whose places hold other alerts than before.

import type { Alert } from './alert.ts';
import { Ledger } from './ledger.ts';
import { MAX_ALERTS, Store } from './store.ts';

/** How many are asked for at once: few at first, so that the page is there soon. */
export const FIRST_PAGE = 200;
export const PAGE = 1000;

export interface Request {
  /** Everything below this place; undefined asks for the newest. */
  readonly before?: number;
  readonly limit: number;
  /** The newest place that was known when it was asked. */
  readonly known: number;
}

export interface Page {
  readonly alerts: readonly Alert[];
  /** How many there were, with those that can't be read, and the lowest place of them. */
  readonly count: number;
  readonly lowest: number;
  /** The oldest and the newest place of the stream; 0 where it is empty. */
  readonly first: number;
  readonly last: number;
}

export class History {
  store: Store;
  /** Counts the streams that the page has met: up by one when it began anew. */
  epoch = 0;
  private ledger = new Ledger();
  private first = 1;
  private look = true; // for the newest
  /** Whether the service has answered since the page opened. */
  private asked = false;

  constructor(private readonly limit = MAX_ALERTS) {
    this.store = new Store(limit);
  }

  /** Takes an alert that came live. The answer is what is new by it. */
  live(alert: Alert): Alert[] {
    if (this.ledger.has(alert.seq) && this.store.at(alert.seq)?.id !== alert.id) {
      // The place is taken by another, or was found empty: look what is there now.
      if (alert.seq >= this.floor()) this.look = true;
      return [];
    }
    this.ledger.cover(alert.seq, alert.seq);
    return this.store.add([alert]);
  }

  /** The newest place that is known, or 0. */
  get last(): number {
    return this.ledger.last;
  }

  /** Has the newest looked for: after a connection came back. */
  resync(): void {
    this.look = true;
  }

  /** What to ask for now, or undefined when nothing is missing. */
  next(): Request | undefined {
    const known = this.last;
    if (this.look) return { limit: this.asked ? PAGE : FIRST_PAGE, known };
    const gap = this.ledger.gap(this.floor());
    if (gap === undefined) return undefined;
    // One more than is missing: it is known already, and tells whether this is
    // still the same stream.
    return { before: gap[1] + 1, limit: Math.min(PAGE, gap[1] - gap[0] + 2), known };
  }

  /** Takes what the service had. The answer is what is new by it. */
  page(request: Request, page: Page): Alert[] {
    const other = this.isOther(request, page);
    if (other) this.begin();
    this.asked = true;
    this.first = Math.max(1, page.first);
    // Of another stream something may have come live in between: look again.
    if (request.before === undefined) this.look = other;
    const top = request.before === undefined ? page.last : request.before - 1;
    // Fewer than were asked for: there are none below.
    this.ledger.cover(page.count < request.limit ? 1 : page.lowest, top);
    return this.store.add(page.alerts);
  }

  /** Whether older alerts are on their way. */
  get loading(): boolean {
    return this.next() !== undefined;
  }

  /** Below this place nothing is wanted. */
  private floor(): number {
    return Math.max(this.first, this.ledger.last - this.limit + 1);
  }

  private isOther(request: Request, page: Page): boolean {
    let same = 0;
    for (const alert of page.alerts) {
      const known = this.store.at(alert.seq);
      if (known === undefined) continue;
      if (known.id !== alert.id) return true;
      same++;
    }
    // It ends before what is known: one that holds the same only lags behind, as
    // a replica may.
    return request.before === undefined && page.last < request.known && same === 0;
  }

  private begin(): void {
    if (this.store.size > 0) this.epoch++;
    this.look = true;
    this.store = new Store(this.limit);
    this.ledger = new Ledger();
  }
}
