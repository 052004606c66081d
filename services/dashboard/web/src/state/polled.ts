// Data that is read from the service repeatedly while a view shows it.

import { type ReadonlySignal, signal } from '@preact/signals';

import type { Api } from '../live/api.ts';

export interface Loaded<T> {
  /** The last value, undefined before the first answer. */
  readonly value: T | undefined;
  /** The error of the last read, empty if it succeeded. */
  readonly error: string;
}

export class Polled<T> {
  private readonly state = signal<Loaded<T>>({ value: undefined, error: '' });
  private watchers = 0;
  private timer = 0;
  /** Counts reads, so that a late answer does not replace a newer one. */
  private reads = 0;

  constructor(
    private readonly api: Api,
    private readonly path: string,
    private readonly read: (value: unknown) => T,
    /** The interval of reads, in ms. */
    private readonly every: number,
  ) {}

  get loaded(): ReadonlySignal<Loaded<T>> {
    return this.state;
  }

  /** Reads now and at each interval, until the returned function is called. A hidden tab pauses. */
  watch(): () => void {
    if (this.watchers++ === 0) {
      void this.refresh();
      this.timer = window.setInterval(() => {
        if (!document.hidden) void this.refresh();
      }, this.every);
    }
    return () => {
      if (--this.watchers === 0) clearInterval(this.timer);
    };
  }

  async refresh(): Promise<void> {
    const read = ++this.reads;
    let next: Loaded<T>;
    try {
      next = { value: this.read(await this.api.get(this.path)), error: '' };
    } catch (error) {
      next = { value: this.state.value.value, error: errorText(error) };
    }
    if (read === this.reads) this.state.value = next; // else a newer read is running
  }

  /** Sets the value from the answer to a change. */
  set(value: T): void {
    this.reads++;
    this.state.value = { value, error: '' };
  }
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
