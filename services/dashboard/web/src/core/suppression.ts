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

export interface Suppressions {
  readonly silences: readonly Silence[];
  readonly acks: readonly Ack[];
}

export const NO_SUPPRESSIONS: Suppressions = { silences: [], acks: [] };

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

/** The silence or acknowledgement that suppresses an alert. */
export type Suppressor = { readonly silence: Silence } | { readonly ack: Ack };

function matchesSilence(s: Silence, alert: Alert): boolean {
  return (
    (s.key === '' || s.key === alert.key) &&
    (s.category === '' || s.category === alert.category) &&
    (s.app === '' || s.app === alert.app) &&
    alert.time >= s.created &&
    alert.time < s.until
  );
}

function matchesAck(ack: Ack, alert: Alert, now: number): boolean {
  return (
    ack.app === alert.app &&
    ack.key === alert.key &&
    alert.resolves.length === 0 &&
    (now < ack.until || alert.time < ack.until) &&
    (alert.time <= ack.since || rank(alert.severity) <= rank(ack.severity))
  );
}

/** Returns what suppresses an alert, or undefined. A silence wins over an acknowledgement. */
export function suppressedBy(suppressions: Suppressions, alert: Alert, now: number): Suppressor | undefined {
  for (const silence of suppressions.silences) if (matchesSilence(silence, alert)) return { silence };
  for (const ack of suppressions.acks) if (matchesAck(ack, alert, now)) return { ack };
  return undefined;
}

/** Returns those that have not ended. */
export function active<T extends { readonly until: number }>(all: readonly T[], now: number): T[] {
  return all.filter((item) => now < item.until);
}
