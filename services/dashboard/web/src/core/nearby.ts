// The events that were received shortly before and after an alert, one line each.

import { incompleteReason } from './incomplete.ts';
import { line, moment, number, object, objects, text } from './read.ts';

export interface NearbyEvent {
  readonly time: number;
  readonly kind: string;
  readonly bad: boolean;
  /** One line about the event. */
  readonly summary: string;
  /** Such as a stack; may be empty. */
  readonly details: string;
  readonly session: string;
}

/** How long before and after an alert events are read, in ms. */
export const BEFORE = 60_000;
export const AFTER = 30_000;
export const MAX_NEARBY = 100;

export interface NearbyEvents {
  /** Oldest first. */
  readonly events: readonly NearbyEvent[];
  /** Why events are missing, or empty. */
  readonly incomplete: string;
}

export function readNearbyEvents(value: unknown): NearbyEvents {
  const all = objects(object(value).events).map((v) => {
    const kind = line(v.kind, 20);
    const fields = object(v[kind]);
    return { time: moment(v.received), kind, session: line(v.session, 100), ...describe(kind, fields, v) };
  });
  const events = all.filter((e) => e.time > 0).sort((a, b) => a.time - b.time);
  const limited = events.length >= MAX_NEARBY ? `showing the newest ${MAX_NEARBY}` : '';
  return { events, incomplete: incompleteReason(value) || limited };
}

function describe(
  kind: string,
  fields: Record<string, unknown>,
  event: Record<string, unknown>,
): { summary: string; bad: boolean; details: string } {
  switch (kind) {
    case 'log':
      return {
        summary: `${line(fields.level, 10)}: ${line(fields.message, 500)}`,
        bad: fields.level === 'error',
        details: text(fields.stack),
      };
    case 'network': {
      const status = number(fields.status);
      const took = number(fields.duration_ms);
      const outcome = status === 0 ? line(fields.error, 200) || 'no answer' : String(status);
      return {
        summary: `${line(fields.method, 10)} ${line(fields.url, 500)} \u2192 ${outcome}${took > 0 ? `, ${Math.round(took)} ms` : ''}`,
        bad: status === 0 || status >= 500,
        details: text(fields.response_body, 2000),
      };
    }
    case 'vitals': {
      const values = Object.entries(fields).map(
        ([name, v]) =>
          `${name.replace(/_ms$/, '').toUpperCase()} ${line(String(v), 20)}${name.endsWith('_ms') ? ' ms' : ''}`,
      );
      return { summary: `${values.join(', ')}${event.url ? ` on ${line(event.url, 200)}` : ''}`, bad: false, details: '' };
    }
    case 'action':
      return { summary: `${line(fields.type, 20)} ${line(fields.target, 300)}`, bad: false, details: '' };
    case 'memory': {
      const mb = (v: unknown) => `${Math.round(number(v) / 2 ** 20)} MiB`;
      return { summary: `${mb(fields.used_bytes)} of ${mb(fields.limit_bytes)}`, bad: false, details: '' };
    }
    case 'circuit':
      return {
        summary: `${line(fields.name, 100)} ${line(fields.state, 20)}`,
        bad: fields.state === 'open',
        details: line(fields.reason, 500),
      };
    case 'security':
      return {
        summary: `${line(fields.type, 40)}: ${line(fields.message, 300)} ${line(fields.blocked_url, 300)}`.trim(),
        bad: true,
        details: '',
      };
    default:
      return { summary: line(JSON.stringify(fields), 300), bad: false, details: '' };
  }
}
