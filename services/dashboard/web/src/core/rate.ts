// The rate of alerts: their number by severity in buckets of equal length.

import { type Alert, rank } from './alert.ts';

export interface Span {
  readonly name: string;
  /** The length of the span and of one bucket, in ms. */
  readonly length: number;
  readonly step: number;
}

const MINUTE = 60_000;

export const SPANS: readonly Span[] = [
  { name: '15 min', length: 15 * MINUTE, step: 15_000 },
  { name: '1 h', length: 60 * MINUTE, step: MINUTE },
  { name: '6 h', length: 360 * MINUTE, step: 5 * MINUTE },
  { name: '24 h', length: 1440 * MINUTE, step: 20 * MINUTE },
  { name: '7 d', length: 7 * 1440 * MINUTE, step: 120 * MINUTE },
];

export interface Rate {
  /** The start of each bucket, in ms, oldest first. */
  readonly times: number[];
  /** The number of alerts in each bucket, by severity. */
  readonly counts: readonly [info: number[], warning: number[], error: number[]];
  readonly total: number;
}

/** Counts the alerts of a span whose last bucket contains now. */
export function rate(alerts: readonly Alert[], span: Span, now: number): Rate {
  const end = Math.floor(now / span.step) * span.step + span.step;
  const n = Math.round(span.length / span.step);
  const start = end - n * span.step;
  const times = Array.from({ length: n }, (_, i) => start + i * span.step);
  const counts: [number[], number[], number[]] = [times.map(() => 0), times.map(() => 0), times.map(() => 0)];
  let total = 0;
  for (const alert of alerts) {
    if (alert.time < start || alert.time >= end) continue;
    const bucket = Math.floor((alert.time - start) / span.step);
    const bars = counts[rank(alert.severity) - 1] as number[];
    bars[bucket] = (bars[bucket] ?? 0) + 1;
    total++;
  }
  return { times, counts, total };
}
