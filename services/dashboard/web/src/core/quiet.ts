// Silences and acknowledgements, with the rules of shared/silence. The page only
// marks alerts by them; the gateways suppress.

import { type Alert, rank } from './alert.ts';
import { line, moment, objects, token } from './read.ts';

export interface Silence {
  readonly id: string;
  readonly key: string;
  readonly category: string;
  readonly app: string;
  readonly reason: string;
  readonly by: string;
  readonly created: number;
  readonly until: number;
}

export interface Ack {
  readonly alert: string;
  readonly app: string;
  readonly key: string;
  readonly severity: string;
  readonly since: number;
  readonly by: string;
  readonly created: number;
  readonly until: number;
}

export interface Quiet {
  readonly silences: readonly Silence[];
  readonly acks: readonly Ack[];
}

export const NOTHING_QUIET: Quiet = { silences: [], acks: [] };

export function readSilences(value: unknown): Silence[] {
  return objects(value)
    .map((v) => ({
      id: token(v.id),
      key: token(v.dedup_key),
      category: token(v.category),
      app: token(v.app),
      reason: line(v.reason),
      by: line(v.by),
      created: moment(v.created),
      until: moment(v.until),
    }))
    .filter((s) => s.id !== '' && s.key + s.category + s.app !== '' && s.created > 0 && s.until > 0);
}

export function readAcks(value: unknown): Ack[] {
  return objects(value)
    .map((v) => ({
      alert: token(v.alert_id),
      app: token(v.app),
      key: token(v.dedup_key),
      severity: token(v.severity),
      since: moment(v.since),
      by: line(v.by),
      created: moment(v.created),
      until: moment(v.until),
    }))
    .filter((k) => k.alert !== '' && k.created > 0 && k.until > 0);
}

/** Why an alert is suppressed. */
export type Why = { readonly silence: Silence } | { readonly ack: Ack };

function silences(s: Silence, alert: Alert): boolean {
  return (
    (s.key === '' || s.key === alert.key) &&
    (s.category === '' || s.category === alert.category) &&
    (s.app === '' || s.app === alert.app) &&
    alert.time >= s.created &&
    alert.time < s.until
  );
}

function acknowledges(k: Ack, alert: Alert, now: number): boolean {
  return (
    k.app === alert.app &&
    k.key === alert.key &&
    alert.ends.length === 0 &&
    (now < k.until || alert.time < k.until) &&
    (alert.time <= k.since || rank(alert.severity) <= rank(k.severity))
  );
}

/** Why an alert is suppressed, or undefined. A silence wins over an acknowledgement. */
export function hushed(quiet: Quiet, alert: Alert, now: number): Why | undefined {
  for (const silence of quiet.silences) if (silences(silence, alert)) return { silence };
  for (const ack of quiet.acks) if (acknowledges(ack, alert, now)) return { ack };
  return undefined;
}

/** Those that are still active. */
export function lasting<T extends { readonly until: number }>(all: readonly T[], now: number): T[] {
  return all.filter((one) => now < one.until);
}
