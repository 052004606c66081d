// The events around an alert, one line each.

import { lacking } from './part.ts';
import { line, moment, number, object, objects, text } from './read.ts';

export interface Around {
  readonly time: number;
  readonly kind: string;
  readonly bad: boolean;
  readonly says: string;
  /** More details, such as a stack; may be empty. */
  readonly more: string;
  readonly session: string;
}

/** The time before and after an alert whose events are read, in ms. */
export const BEFORE = 60_000;
export const AFTER = 30_000;
export const MAX_AROUND = 100;

export interface AllAround {
  /** Oldest first. */
  readonly events: readonly Around[];
  readonly lacks: string;
}

export function readAround(value: unknown): AllAround {
  const all = objects(object(value).events).map((v) => {
    const kind = line(v.kind, 20);
    const fields = object(v[kind]);
    return { time: moment(v.received), kind, session: line(v.session, 100), ...describe(kind, fields, v) };
  });
  const events = all.filter((e) => e.time > 0).sort((a, b) => a.time - b.time);
  const most = events.length >= MAX_AROUND ? `showing the newest ${MAX_AROUND}` : '';
  return { events, lacks: lacking(value) || most };
}

function describe(
  kind: string,
  of: Record<string, unknown>,
  event: Record<string, unknown>,
): { says: string; bad: boolean; more: string } {
  switch (kind) {
    case 'log':
      return {
        says: `${line(of.level, 10)}: ${line(of.message, 500)}`,
        bad: of.level === 'error',
        more: text(of.stack),
      };
    case 'network': {
      const status = number(of.status);
      const took = number(of.duration_ms);
      const outcome = status === 0 ? line(of.error, 200) || 'no answer' : String(status);
      return {
        says: `${line(of.method, 10)} ${line(of.url, 500)} \u2192 ${outcome}${took > 0 ? `, ${Math.round(took)} ms` : ''}`,
        bad: status === 0 || status >= 500,
        more: text(of.response_body, 2000),
      };
    }
    case 'vitals': {
      const values = Object.entries(of).map(
        ([name, v]) =>
          `${name.replace(/_ms$/, '').toUpperCase()} ${line(String(v), 20)}${name.endsWith('_ms') ? ' ms' : ''}`,
      );
      return { says: `${values.join(', ')}${event.url ? ` on ${line(event.url, 200)}` : ''}`, bad: false, more: '' };
    }
    case 'action':
      return { says: `${line(of.type, 20)} ${line(of.target, 300)}`, bad: false, more: '' };
    case 'memory': {
      const mb = (v: unknown) => `${Math.round(number(v) / 2 ** 20)} MiB`;
      return { says: `${mb(of.used_bytes)} of ${mb(of.limit_bytes)}`, bad: false, more: '' };
    }
    case 'circuit':
      return {
        says: `${line(of.name, 100)} ${line(of.state, 20)}`,
        bad: of.state === 'open',
        more: line(of.reason, 500),
      };
    case 'security':
      return {
        says: `${line(of.type, 40)}: ${line(of.message, 300)} ${line(of.blocked_url, 300)}`.trim(),
        bad: true,
        more: '',
      };
    default:
      return { says: line(JSON.stringify(of), 300), bad: false, more: '' };
  }
}
