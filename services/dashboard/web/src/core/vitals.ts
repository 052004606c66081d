// The web vitals of a page, with their baselines and the alerts about them.

import type { Alert } from './alert.ts';
import { incompleteReason } from './incomplete.ts';
import { line, moment, number, object, objects, token } from './read.ts';

export interface Vital {
  readonly key: string;
  readonly name: string;
  readonly description: string;
  readonly unit: string;
}

export const VITALS: readonly Vital[] = [
  { key: 'lcp_ms', name: 'LCP', description: 'largest contentful paint', unit: 'ms' },
  { key: 'inp_ms', name: 'INP', description: 'interaction to next paint', unit: 'ms' },
  { key: 'cls', name: 'CLS', description: 'cumulative layout shift', unit: '' },
  { key: 'fcp_ms', name: 'FCP', description: 'first contentful paint', unit: 'ms' },
  { key: 'ttfb_ms', name: 'TTFB', description: 'time to first byte', unit: 'ms' },
  { key: 'load_ms', name: 'Load', description: 'load event', unit: 'ms' },
];

export interface Page {
  readonly app: string;
  readonly page: string;
  readonly baselines: Readonly<Record<string, { median: number; loads: number }>>;
  readonly loads: readonly { readonly time: number; readonly values: Readonly<Record<string, number>> }[];
}

export interface Pages {
  readonly pages: readonly Page[];
  readonly incomplete: string;
}

export function readPages(value: unknown): Pages {
  return { pages: pagesOf(value), incomplete: incompleteReason(value) };
}

function pagesOf(value: unknown): Page[] {
  return objects(object(value).pages).map((p) => {
    const baselines: Record<string, { median: number; loads: number }> = {};
    for (const [name, b] of Object.entries(object(p.baselines))) {
      baselines[name] = { median: number(object(b).median), loads: number(object(b).loads) };
    }
    const loads = objects(p.loads).map((l) => {
      const values: Record<string, number> = {};
      for (const [name, v] of Object.entries(object(l.values))) if (typeof v === 'number') values[name] = v;
      return { time: moment(l.received), values };
    });
    loads.sort((a, b) => a.time - b.time);
    return { app: token(p.app), page: token(p.page), baselines, loads: loads.filter((l) => l.time > 0) };
  });
}

export interface Mark {
  readonly time: number;
  /** Where it is drawn, in ms: at its load if that is known, else at its time. */
  readonly position: number;
  readonly alert: Alert;
}

export interface Curve {
  readonly vital: Vital;
  readonly times: number[];
  /** Where each load is drawn, in ms: at its time, but after the previous load. */
  readonly positions: number[];
  readonly values: number[];
  /** The current baseline, or undefined. */
  readonly baseline: number | undefined;
  /** The baseline is the median of this number of loads. */
  readonly loads: number;
  readonly marks: readonly Mark[];
}

/** The curves of the vitals that have loads, in the order of VITALS. */
export function curves(page: Page, alerts: readonly Alert[]): Curve[] {
  return VITALS.flatMap((vital) => {
    const loads = page.loads.filter((l) => l.values[vital.key] !== undefined);
    if (loads.length === 0) return [];
    const from = (loads[0] as { time: number }).time;
    const baseline = page.baselines[vital.key];
    const times = loads.map((l) => l.time);
    const values = loads.map((l) => l.values[vital.key] as number);
    const positions = rising(times);
    return [
      {
        vital,
        times,
        positions,
        values,
        baseline: baseline?.median,
        loads: baseline?.loads ?? 0,
        marks: alerts
          .filter((a) => isAbout(a, page, vital) && a.time >= from)
          .map((alert) => ({ time: alert.time, position: positions[loadOf(alert, times, values)] ?? alert.time, alert })),
      },
    ];
  });
}

/** Makes times strictly ascending, in ms, as a line chart needs. */
function rising(times: readonly number[]): number[] {
  const out: number[] = [];
  for (const t of times) out.push(Math.max(t, (out.at(-1) ?? 0) + 1));
  return out;
}

/** The index of the load that raised an alert, or -1. Several may have the same time. */
function loadOf(alert: Alert, times: readonly number[], values: readonly number[]): number {
  const exact = times.findLastIndex((t, i) => t === alert.time && values[i] === alert.context.value);
  return exact >= 0 ? exact : times.lastIndexOf(alert.time);
}

function isAbout(alert: Alert, page: Page, vital: Vital): boolean {
  return (
    alert.category === 'regression' &&
    alert.app === page.app &&
    alert.context.metric === vital.key &&
    alert.context.page === page.page
  );
}

/** Formats a value for people. */
export function measured(value: number, vital: Vital): string {
  if (vital.unit === '') return line(value.toFixed(value < 1 ? 3 : 2));
  return value < 10_000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}
