// Notices, the messages of agents to their users: the newest 200, each once.

import { line, moment, number, object, text } from './read.ts';

export const MAX_NOTICES = 200;

export interface Notice {
  /** Its sequence in the stream, or 0 if unknown. */
  readonly seq: number;
  readonly message: string;
  readonly level: 'info' | 'warn' | 'error';
  readonly context: string;
  readonly client: string;
  readonly time: number;
}

export function readNotice(value: unknown, seq = 0): Notice | undefined {
  const v = object(value);
  const message = text(v.message);
  const time = moment(v.timestamp) || moment(v.received);
  if (message === '' || time === 0) return undefined;
  const level = v.level === 'warn' || v.level === 'error' ? v.level : 'info';
  return { seq: seq || number(v.seq), message, level, context: line(v.context), client: line(v.client), time };
}

function same(a: Notice, b: Notice): boolean {
  return a.seq > 0 && b.seq > 0
    ? a.seq === b.seq && a.time === b.time
    : a.time === b.time && a.message === b.message && a.client === b.client;
}

/** Adds notices to a list, newest first. */
export function withNotices(list: readonly Notice[], more: readonly Notice[]): Notice[] {
  const fresh = more.filter((n, i) => !list.some((known) => same(known, n)) && more.findIndex((m) => same(m, n)) === i);
  if (fresh.length === 0) return list as Notice[];
  return [...fresh, ...list].sort((a, b) => b.time - a.time || b.seq - a.seq).slice(0, MAX_NOTICES);
}
