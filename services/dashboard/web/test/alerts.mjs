// Alerts for the tests.

import { readAlert } from '../src/core/alert.ts';

export const T0 = Date.parse('2026-01-28T14:30:00.000Z');

/** An alert with a sequence, one second after the alert before it. */
export function alert(seq, more = {}) {
  const found = readAlert(seq, {
    id: `a${seq}`,
    severity: 'error',
    category: 'errors',
    title: `alert ${seq}`,
    detail: '',
    timestamp: new Date(T0 + seq * 1000).toISOString(),
    source: 'error_tracker',
    app: 'web',
    url: '',
    context: {},
    dedup_key: `k${seq}`,
    correlation_id: `a${seq}`,
    ...more,
  });
  if (found === undefined) throw new Error(`no alert: ${JSON.stringify(more)}`);
  return found;
}

/** Random numbers from 0 to 1, the same for the same seed. */
export function random(seed) {
  let s = seed;
  return () => {
    s = (s * 1664525 + 1013904223) >>> 0;
    return s / 2 ** 32;
  };
}
