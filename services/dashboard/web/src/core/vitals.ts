// The web vitals of a page with what is usual and the alerts about them.

import type { Alert } from './alert.ts';
import { lacking } from './part.ts';
import { line, moment, number, object, objects, token } from './read.ts';

export interface Vital {
  readonly key: string;
  readonly name: string;
  readonly says: string;
  readonly unit: string;
}

export const VITALS: readonly Vital[] = [
  { key: 'lcp_ms', name: 'LCP', says: 'largest contentful paint', unit: 'ms' },
  { key: 'inp_ms', name: 'INP', says: 'interaction to next paint', unit: 'ms' },
  { key: 'cls', name: 'CLS', says: 'cumulative layout shift', unit: '' },
  { key: 'fcp_ms', name: 'FCP', says: 'first contentful paint', unit: 'ms' },
  { key: 'ttfb_ms', name: 'TTFB', says: 'time to first byte', unit: 'ms' },
  { key: 'load_ms', name: 'Load', says: 'load event', unit: 'ms' },
];

export interface Page {
  readonly app: string;
  readonly page: string;
  readonly baselines: Readonly<Record<string, { median: number; loads: number }>>;
  readonly loads: readonly { readonly time: number; readonly values: Readonly<Record<string, number>> }[];
}

export interface Pages {
  readonly pages: readonly Page[];
  readonly lacks: string;
}

export function readPages(value: unknown): Pages {
  return { pages: pagesOf(value), lacks: lacking(value) };
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
  /** Where it is drawn: at the load that it is about, where that is known. */
  readonly at: number;
  readonly alert: Alert;
}

export interface Curve {
  readonly vital: Vital;
  readonly times: number[];
  /** Where each load is drawn: its time, but always after that of the one before. */
  readonly at: number[];
  readonly values: number[];
  /** What is usual now, or undefined where nothing is known. */
  readonly baseline: number | undefined;
  /** Of how many loads it is the median. */
  readonly loads: number;
  readonly marks: readonly Mark[];
}

/** The vitals of a page that have loads, in the order of VITALS. */
export function curves(page: Page, alerts: readonly Alert[]): Curve[] {
  return VITALS.flatMap((vital) => {
    const loads = page.loads.filter((l) => l.values[vital.key] !== undefined);
    if (loads.length === 0) return [];
    const from = (loads[0] as { time: number }).time;
    const baseline = page.baselines[vital.key];
    const times = loads.map((l) => l.time);
    const values = loads.map((l) => l.values[vital.key] as number);
    const at = rising(times);
    return [
      {
        vital,
        times,
        at,
        values,
        baseline: baseline?.median,
        loads: baseline?.loads ?? 0,
        marks: alerts
          .filter((a) => isAbout(a, page, vital) && a.time >= from)
          .map((alert) => ({ time: alert.time, at: at[loadOf(alert, times, values)] ?? alert.time, alert })),
      },
    ];
  });
}

/** Times of which none is that of the one before, in ms: a line needs that. */
function rising(times: readonly number[]): number[] {
  const out: number[] = [];
  for (const t of times) out.push(Math.max(t, (out.at(-1) ?? 0) + 1));
  return out;
}

/** The load that raised an alert, or -1. Several may have come at once. */
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

/** A value as a person reads it. */
export function measured(value: number, vital: Vital): string {
  if (vital.unit === '') return line(value.toFixed(value < 1 ? 3 : 2));
  return value < 10_000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}
