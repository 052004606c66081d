// The grouping key that a page can set on an error:
// throw Object.assign(new Error(text), { fingerprint: ['cart', 'timeout'] }).

import { read } from './guard.ts';

/** Ingest's bounds. A fingerprint beyond them is dropped. */
const MAX_PARTS = 16;
const MAX_LENGTH = 1 << 10;

/** Returns the fingerprint of an error: one text or several. It calls no getters. */
export function fingerprintOf(error: unknown): string[] | undefined {
  return read(() => {
    if (typeof error !== 'object' || error === null) return undefined;
    const value: unknown = Object.getOwnPropertyDescriptor(error, 'fingerprint')?.value;
    const given: unknown = typeof value === 'string' ? [value] : value;
    if (!Array.isArray(given) || given.length > MAX_PARTS) return undefined;
    const parts: string[] = [];
    let length = 0;
    for (let i = 0; i < given.length; i++) {
      const part: unknown = given[i];
      if (typeof part !== 'string') return undefined;
      length += part.length;
      parts.push(part);
    }
    return length > 0 && length <= MAX_LENGTH ? parts : undefined;
  });
}
