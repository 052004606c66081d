// Sends events in batches. While the page is visible, it uses fetch, which shows whether a batch
// arrived. Once the page is hidden and may end, it uses a beacon, which does not, but outlives the
// page.

import { Queue, total, type Entry } from './queue.ts';

/** Bounds of a batch: events and bytes. */
export const MAX_BATCH = 50;
export const MAX_BATCH_BYTES = 48 << 10;
/** Browsers accept 64 KiB of beacons and keepalive requests at once, for each page. */
const MAX_IN_FLIGHT = 60 << 10;

/** How long the first event of a batch waits for more, in milliseconds. */
export const DELAY = 1000;
/** The pause after a failure, at first and at most. */
export const RETRY_FIRST = 1000;
export const RETRY_MOST = 30_000;

/** The result of a batch: done, or the milliseconds until a retry (0: the Sender decides). */
export type Outcome = 'done' | number;

/** The ways to send from the page. */
export interface Transport {
  post(body: string): Promise<Outcome>;
  /** Returns false if the browser does not accept the beacon. */
  beacon(body: string): boolean;
}

export interface Clock {
  /** Calls f after some milliseconds. Returns a function that cancels the call. */
  after(ms: number, f: () => void): () => void;
  random(): number;
}

export class Sender {
  private readonly queue = new Queue();
  private cancel: (() => void) | undefined;
  private soon = false; // whether the next flush is to run without delay
  private posts = 0;
  private postBytes = 0;
  private failures = 0;
  private stopped = false;
  private lost = 0;

  /** notice returns the event with the number of dropped events. */
  constructor(
    private readonly transport: Transport,
    private readonly clock: Clock,
    private readonly notice: (lost: number) => string,
  ) {}

  add(json: string): void {
    if (this.stopped) return;
    this.lose(this.queue.push(json));
  }

  /** Counts events that were dropped. The next batch reports them. */
  lose(n: number): void {
    this.lost += n;
    this.schedule();
  }

  /** Stops for good: nothing can be sent from this page. */
  stop(): void {
    this.stopped = true;
    this.unschedule();
    this.queue.clear();
  }

  /** Sends everything, because the page is hidden; last means that it is about to end. */
  leave(last: boolean): void {
    if (this.stopped) return;
    this.unschedule();
    if (this.failures > 0 && !last) {
      this.flush(); // a beacon would not show whether ingest is reachable again
      return;
    }
    let room = MAX_IN_FLIGHT - this.postBytes;
    for (;;) {
      const batch = this.batch(room);
      if (batch.length === 0) break;
      room -= total(batch);
      if (!this.transport.beacon(body(batch))) this.post(batch);
    }
    this.schedule();
  }

  private flush(): void {
    this.unschedule();
    if (this.stopped || this.posts > 0) return;
    const batch = this.batch(MAX_BATCH_BYTES);
    if (batch.length > 0) this.post(batch);
  }

  private batch(room: number): Entry[] {
    if (this.lost > 0) {
      const lost = this.lost;
      this.lost = this.queue.push(this.notice(lost));
    }
    return this.queue.take(MAX_BATCH, Math.min(room, MAX_BATCH_BYTES));
  }

  private post(batch: Entry[]): void {
    const size = total(batch);
    this.posts++;
    this.postBytes += size;
    this.transport.post(body(batch)).then(
      (outcome) => this.done(batch, size, outcome),
      () => this.done(batch, size, 0),
    );
  }

  private done(batch: Entry[], size: number, outcome: Outcome): void {
    this.posts--;
    this.postBytes -= size;
    if (this.stopped) return;
    if (typeof outcome === 'number') {
      this.lost += this.queue.putBack(batch);
      const most = Math.min(RETRY_MOST, RETRY_FIRST * 2 ** this.failures++);
      this.unschedule();
      this.cancel = this.clock.after(Math.max(outcome, most * (0.5 + this.clock.random() / 2)), () => this.flush());
      return;
    }
    this.failures = 0;
    this.schedule();
  }

  /** Schedules the next flush, unless a request is in flight or a retry is scheduled. */
  private schedule(): void {
    if (this.stopped || this.posts > 0 || this.failures > 0 || this.queue.length + this.lost === 0) return;
    const full = this.queue.length >= MAX_BATCH || this.queue.bytes >= MAX_BATCH_BYTES;
    if (this.cancel && (this.soon || !full)) return;
    this.unschedule();
    this.soon = full;
    this.cancel = this.clock.after(full ? 0 : DELAY, () => this.flush());
  }

  /** Cancels the next flush. */
  private unschedule(): void {
    this.cancel?.();
    this.cancel = undefined;
    this.soon = false;
  }
}

function body(batch: readonly Entry[]): string {
  let text = '';
  for (let i = 0; i < batch.length; i++) text += (i ? ',' : '[') + (batch[i] as Entry).json;
  return text + ']';
}
