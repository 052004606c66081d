// The filter of the list of alerts.

import { type Alert, SEVERITIES, type Severity } from './alert.ts';

export interface Filter {
  /** The severities that are shown; empty shows all. */
  readonly severities: readonly Severity[];
  readonly categories: readonly string[];
  readonly apps: readonly string[];
  /** Words that an alert must contain; "some words" together, -word excluded. */
  readonly search: string;
  /** Whether to hide alerts that are resolved, silenced or acknowledged. */
  readonly current: boolean;
}

export const EVERYTHING: Filter = { severities: [], categories: [], apps: [], search: '', current: false };

export interface Term {
  readonly text: string;
  readonly not: boolean;
}

/** Splits a search into its words. */
export function terms(search: string): Term[] {
  const found: Term[] = [];
  for (const match of search.toLowerCase().matchAll(/(-?)(?:"([^"]*)"?|(\S+))/g)) {
    const text = match[2] ?? match[3] ?? '';
    if (text !== '') found.push({ text, not: match[1] === '-' });
  }
  return found;
}

const haystacks = new WeakMap<Alert, string>();

function haystack(alert: Alert): string {
  let text = haystacks.get(alert);
  if (text === undefined) {
    const { title, detail, app, category, severity, url, source, key, id } = alert;
    text = [title, detail, app, category, severity, url, source, key, id, JSON.stringify(alert.context)]
      .join('\n')
      .toLowerCase();
    haystacks.set(alert, text);
  }
  return text;
}

/** Compiles a filter into a predicate. It ignores filter.current. */
export function matcher(filter: Filter): (alert: Alert) => boolean {
  const severities = new Set<string>(filter.severities);
  const categories = new Set(filter.categories);
  const apps = new Set(filter.apps);
  const words = terms(filter.search);
  return (alert) =>
    (severities.size === 0 || severities.has(alert.severity)) &&
    (categories.size === 0 || categories.has(alert.category)) &&
    (apps.size === 0 || apps.has(alert.app)) &&
    (words.length === 0 || words.every((word) => haystack(alert).includes(word.text) !== word.not));
}

export function isEverything(filter: Filter): boolean {
  return (
    filter.severities.length + filter.categories.length + filter.apps.length === 0 &&
    filter.search.trim() === '' &&
    !filter.current
  );
}

/** Encodes a filter for the address, so that it can be bookmarked and shared. */
export function toQuery(filter: Filter): string {
  const query = new URLSearchParams();
  for (const [name, values] of [
    ['severity', filter.severities],
    ['category', filter.categories],
    ['app', filter.apps],
  ] as const) {
    for (const value of values) query.append(name, value);
  }
  if (filter.search !== '') query.set('q', filter.search);
  if (filter.current) query.set('current', '1');
  return query.toString();
}

export function fromQuery(text: string): Filter {
  const query = new URLSearchParams(text);
  const asked = query.getAll('severity');
  return {
    severities: SEVERITIES.filter((severity) => asked.includes(severity)),
    categories: query.getAll('category').slice(0, 20),
    apps: query.getAll('app').slice(0, 50),
    search: (query.get('q') ?? '').slice(0, 500),
    current: query.get('current') === '1',
  };
}
