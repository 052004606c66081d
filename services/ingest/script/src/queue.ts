// The queue of events that wait to be sent, as JSON texts. When it is full, it drops the oldest
// events.

import { bytes } from './text.ts';

export const MAX_EVENTS = 200;
export const MAX_BYTES = 512 << 10;

export interface Entry {
  readonly json: string;
  readonly bytes: number;
}

export class Queue {
  private entries: Entry[] = [];
  private size = 0;

  get length(): number {
    return this.entries.length;
  }

  get bytes(): number {
    return this.size;
  }

  /** Adds an event at the end. Returns how many older ones were dropped. */
  push(json: string): number {
    const entry = { json, bytes: bytes(json) + 1 }; // with the comma
    this.entries.push(entry);
    this.size += entry.bytes;
    return this.trim();
  }

  /** Takes the oldest events, as many as fit into both bounds. */
  take(maxEvents: number, maxBytes: number): Entry[] {
    let n = 0;
    let room = maxBytes;
    for (; n < this.entries.length && n < maxEvents; n++) {
      room -= (this.entries[n] as Entry).bytes;
      if (room < 0) break;
    }
    const taken = this.entries.splice(0, n);
    this.size -= total(taken);
    return taken;
  }

  /** Puts back events that could not be sent, before the others. Returns how many were dropped. */
  putBack(taken: Entry[]): number {
    this.entries = taken.concat(this.entries);
    this.size += total(taken);
    return this.trim();
  }

  clear(): void {
    this.entries = [];
    this.size = 0;
  }

  private trim(): number {
    let n = 0;
    while (this.entries.length - n > MAX_EVENTS || this.size > MAX_BYTES) {
      this.size -= (this.entries[n++] as Entry).bytes;
    }
    if (n > 0) this.entries.splice(0, n);
    return n;
  }
}

export function total(entries: readonly Entry[]): number {
  let n = 0;
  for (let i = 0; i < entries.length; i++) n += (entries[i] as Entry).bytes;
  return n;
}
