// The health that the services report.

import { incompleteReason } from './incomplete.ts';
import { line, lines, moment, number, object, objects } from './read.ts';

export interface Gateway {
  readonly client: string;
  readonly protocol: string;
  readonly inbox: number;
  readonly streaming: boolean;
  readonly events: readonly string[];
  readonly throttle: number;
  readonly severity: string;
  readonly url: string;
  readonly notified: number;
  readonly pending: number;
  readonly suppressed: number;
  readonly dropped: number;
}

export interface Service {
  readonly service: string;
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly started: number;
  readonly ok: boolean;
  readonly reason: string;
  /** Figures of its work, as text. */
  readonly facts: readonly (readonly [name: string, value: string])[];
  readonly gateway: Gateway | undefined;
}

export function readServices(value: unknown): Service[] {
  return objects(object(value).services).map((v) => ({
    service: line(v.service, 40),
    id: line(v.id, 80),
    host: line(v.host, 100),
    pid: number(v.pid),
    version: line(v.version, 60),
    started: moment(v.started),
    ok: v.ok === true,
    reason: line(v.reason, 400),
    facts: facts(v),
    gateway: typeof v.gateway === 'object' && v.gateway !== null ? readGateway(v.gateway) : undefined,
  }));
}

/** The states of ingest's circuit breaker in plain words: a closed circuit works. */
const CIRCUIT_STATES: Record<string, string> = { closed: 'ok', half_open: 'retrying', open: 'blocked' };

function facts(v: Record<string, unknown>): [string, string][] {
  const count = (n: unknown) => number(n).toLocaleString('en');
  if (v.ingest) {
    const i = object(v.ingest);
    return [
      ['pressure', line(i.pressure, 20)],
      ['bus', CIRCUIT_STATES[line(i.circuit, 20)] ?? line(i.circuit, 20)],
      ['events accepted', count(i.accepted)],
    ];
  }
  if (v.detector) {
    const d = object(v.detector);
    const owned = Array.isArray(d.partitions) ? d.partitions.map(Number).filter(Number.isFinite) : [];
    const of = number(d.of);
    const out: [string, string][] = [
      ['ready', d.ready === true ? 'yes' : 'no'],
      ['lag', count(d.behind)],
      ['dropped', count(d.lost)],
    ];
    // A single partition is not shown. Partitions are numbered from 0.
    const rules = lines(d.rules);
    if (rules.length > 0) out.push(['rules', rules.join(' or ')]);
    if (owned.length === 0 && of > 0) out.push(['partitions', `standby for ${of}`]);
    else if (of > 1) out.push(['partitions', `${owned.length} of ${of} (${owned.map((p) => `no. ${p}`).join(', ')})`]);
    return out;
  }
  if (v.dashboard) {
    const d = object(v.dashboard);
    return [
      ['stream clients', count(d.readers)],
      ['dropped (slow clients)', count(d.dropped)],
    ];
  }
  if (v.kubewatch) {
    return objects(object(v.kubewatch).clusters).flatMap((c): [string, string][] => {
      const cluster = line(c.cluster, 100);
      if (cluster === '') return [];
      if (c.active !== true) return [[cluster, 'standby']];
      if (c.degraded === true) return [[cluster, `can't be watched: ${line(c.error, 400)}`]];
      return [[cluster, `watched (events ${count(c.events)}, faults ${count(c.faults)}, logs ${count(c.logs)})`]];
    });
  }
  return [];
}

function readGateway(value: unknown): Gateway {
  const v = object(value);
  return {
    client: line(v.client, 100),
    protocol: line(v.protocol, 40),
    inbox: number(v.inbox),
    streaming: v.streaming === true,
    events: lines(v.events),
    throttle: number(v.throttle_seconds),
    severity: line(v.severity_min, 20),
    url: line(v.url, 200),
    notified: number(v.notify_count),
    pending: number(v.pending),
    suppressed: number(v.suppressed),
    dropped: number(v.dropped),
  };
}

export interface App {
  readonly app: string;
  readonly senders: readonly string[];
  readonly age: number;
  readonly lastMinute: number;
}

export interface Apps {
  readonly apps: readonly App[];
  readonly incomplete: string;
}

export function readApps(value: unknown): Apps {
  const apps = objects(object(value).apps).map((a) => ({
    app: line(a.app, 100),
    senders: lines(a.senders),
    age: number(a.last_event_seconds),
    lastMinute: number(a.events_last_minute),
  }));
  return { apps, incomplete: incompleteReason(value) };
}
