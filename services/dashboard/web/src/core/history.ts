// Keeps the page's alerts complete, each once: live alerts, earlier ones, and
// those missed in between.
//
// It decides what to request next from the service, and detects that the stream
// was recreated: its sequences then have other alerts than before.

import type { Alert } from './alert.ts';
import { SequenceRanges } from './ranges.ts';
import { MAX_ALERTS, Store } from './store.ts';

/** The number of alerts in one request. The first is small, so that the page loads fast. */
export const FIRST_PAGE = 200;
export const PAGE = 1000;

export interface Request {
  /** Requests alerts before this sequence; undefined requests the newest. */
  readonly before?: number;
  readonly limit: number;
  /** The newest sequence that was known at the time of the request. */
  readonly known: number;
}

export interface Page {
  readonly alerts: readonly Alert[];
  /** The number of alerts, including unreadable ones, and their lowest sequence. */
  readonly count: number;
  readonly lowest: number;
  /** The oldest and the newest sequence of the stream; 0 if it is empty. */
  readonly first: number;
  readonly last: number;
}

export class History {
  store: Store;
  /** Counts how often the stream was recreated. */
  recreations = 0;
  private known = new SequenceRanges();
  private first = 1;
  private newestDue = true; // the newest alerts must be requested
  /** Whether the service has answered at least once. */
  private answered = false;

  constructor(private readonly limit = MAX_ALERTS) {
    this.store = new Store(limit);
  }

  /** Adds a live alert. Returns the alerts that are new. */
  addLive(alert: Alert): Alert[] {
    if (this.known.has(alert.seq) && this.store.getBySeq(alert.seq)?.id !== alert.id) {
      // The sequence has another alert, or was empty: read it again.
      if (alert.seq >= this.lowestKept()) this.newestDue = true;
      return [];
    }
    this.known.add(alert.seq, alert.seq);
    return this.store.add([alert]);
  }

  /** The newest known sequence, or 0. */
  get last(): number {
    return this.known.last;
  }

  /** Makes next() request the newest alerts, after a connection was restored. */
  resync(): void {
    this.newestDue = true;
  }

  /** The next request, or undefined if nothing is missing. */
  next(): Request | undefined {
    const known = this.last;
    if (this.newestDue) return { limit: this.answered ? PAGE : FIRST_PAGE, known };
    const gap = this.known.newestGap(this.lowestKept());
    if (gap === undefined) return undefined;
    // One more than is missing, which is already known: it shows whether the
    // stream is still the same.
    return { before: gap[1] + 1, limit: Math.min(PAGE, gap[1] - gap[0] + 2), known };
  }

  /** Adds the answer to a request. Returns the alerts that are new. */
  addPage(request: Request, page: Page): Alert[] {
    const recreated = this.isRecreated(request, page);
    if (recreated) this.restart();
    this.answered = true;
    this.first = Math.max(1, page.first);
    // If the stream was recreated, live alerts may have arrived meanwhile: request again.
    if (request.before === undefined) this.newestDue = recreated;
    const top = request.before === undefined ? page.last : request.before - 1;
    // Fewer than requested: there are none before them.
    this.known.add(page.count < request.limit ? 1 : page.lowest, top);
    return this.store.add(page.alerts);
  }

  /** Whether more alerts have to be read. */
  get loading(): boolean {
    return this.next() !== undefined;
  }

  /** The lowest sequence that the page keeps. */
  private lowestKept(): number {
    return Math.max(this.first, this.known.last - this.limit + 1);
  }

  private isRecreated(request: Request, page: Page): boolean {
    let same = 0;
    for (const alert of page.alerts) {
      const known = this.store.getBySeq(alert.seq);
      if (known === undefined) continue;
      if (known.id !== alert.id) return true;
      same++;
    }
    // The stream ends before the known alerts. If it has any of them, it is a
    // replica that lags.
    return request.before === undefined && page.last < request.known && same === 0;
  }

  private restart(): void {
    if (this.store.size > 0) this.recreations++;
    this.newestDue = true;
    this.store = new Store(this.limit);
    this.known = new SequenceRanges();
  }
}
