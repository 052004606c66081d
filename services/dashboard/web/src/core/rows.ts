// The rows of the list of alerts, newest first. A row is an alert, or the newest
// alert of a group.

import type { Alert } from './alert.ts';
import { type Filter, matcher } from './filter.ts';
import { suppressedBy, type Suppressions, type Suppressor } from './suppression.ts';
import type { Store } from './store.ts';

export interface Row {
  /** Stays the same when the newest alert of the row changes. */
  readonly key: string;
  /** The newest alert of the row. */
  readonly alert: Alert;
  /** The number of alerts of the row, and of their findings. */
  readonly alerts: number;
  readonly count: number;
  /** The time of the oldest alert of the row. */
  readonly since: number;
  readonly resolved: boolean;
  readonly suppressor: Suppressor | undefined;
}

export interface Options {
  readonly filter: Filter;
  /** Whether the alerts of one app and key are one row. */
  readonly group: boolean;
  readonly suppressions: Suppressions;
  readonly now: number;
}

/** The rows for a filter, without alerts that were replaced. */
export function rows(store: Store, options: Options): Row[] {
  const { filter, group, suppressions, now } = options;
  const wanted = matcher(filter);
  const hasSuppressions = suppressions.silences.length + suppressions.acks.length > 0;
  const out: Row[] = [];
  const groups = new Map<string, { -readonly [K in keyof Row]: Row[K] }>();
  const all = store.all;
  for (let i = all.length - 1; i >= 0; i--) {
    const alert = all[i] as Alert;
    if (store.revision(alert) !== undefined || !wanted(alert)) continue;
    const name = group && alert.key !== '' ? `${alert.app}\n${alert.key}\n${alert.resolves.length > 0}` : '';
    const known = name === '' ? undefined : groups.get(name);
    if (known !== undefined) {
      known.alerts++;
      known.count += alert.count;
      known.since = alert.time;
      continue;
    }
    const resolved = store.resolution(alert) !== undefined;
    const suppressor = hasSuppressions ? suppressedBy(suppressions, alert, now) : undefined;
    const row = { key: name || alert.id, alert, alerts: 1, count: alert.count, since: alert.time, resolved, suppressor };
    if (name !== '') groups.set(name, row);
    if (!filter.current || (!resolved && suppressor === undefined && alert.resolves.length === 0)) out.push(row);
  }
  return out;
}

export interface Tally {
  readonly severities: Readonly<Record<string, number>>;
  readonly categories: Readonly<Record<string, number>>;
  readonly apps: Readonly<Record<string, number>>;
}

/** The number of alerts of each severity, category and app. */
export function tally(store: Store): Tally {
  const empty = (): Record<string, number> => Object.create(null); // an app may be called constructor
  const out = { severities: empty(), categories: empty(), apps: empty() };
  const increment = (counts: Record<string, number>, name: string) => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
  for (const alert of store.all) {
    if (store.revision(alert) !== undefined) continue;
    increment(out.severities, alert.severity);
    increment(out.categories, alert.category);
    increment(out.apps, alert.app);
  }
  return out;
}
