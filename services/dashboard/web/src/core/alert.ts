// The alert, with the fields of shared/alert.

import { type Json, line, list, moment, number, object, text, token } from './read.ts';

/** The severities, least urgent first. */
export const SEVERITIES = ['info', 'warning', 'error'] as const;
export type Severity = (typeof SEVERITIES)[number];

export const CATEGORIES = [
  'regression',
  'anomaly',
  'errors',
  'network_errors',
  'ci',
  'noise',
  'threshold',
  'security',
  'user_frustration',
  'kubernetes',
] as const;

export interface Alert {
  /** Its sequence in the stream. */
  readonly seq: number;
  readonly id: string;
  readonly severity: Severity;
  /** One of CATEGORIES, or a category of a newer detector. */
  readonly category: string;
  readonly title: string;
  readonly detail: string;
  /** When the bus received the event that raised it, in ms. */
  readonly time: number;
  readonly source: string;
  readonly app: string;
  readonly url: string;
  readonly context: Json;
  readonly key: string;
  readonly correlation: string;
  /** The number of findings that it counts, at least 1. */
  readonly count: number;
  /** The id of the alert that it replaces, or empty. */
  readonly revises: string;
  /** The ids of the alerts that it resolves. */
  readonly resolves: readonly string[];
  /** What is known of its investigation, if it has one. */
  readonly investigation: Investigation | undefined;
}

/** What is known of the investigation of an alert. Its texts were written by a model. */
export interface Investigation {
  readonly session: string;
  /** in_progress, completed, failed, timed_out, cancelled, skipped, or one of a newer investigator. */
  readonly status: string;
  readonly summary: string;
  /** proven, likely, unproven, or empty. */
  readonly confidence: string;
  /** A proposal of the model for a file. */
  readonly change: { readonly file: string; readonly description: string } | undefined;
  readonly url: string;
  readonly reason: string;
}

/** The statuses of an investigation whose names differ from them. */
const STATUSES: ReadonlyMap<string, string> = new Map([
  ['in_progress', 'in progress'],
  ['timed_out', 'timed out'],
]);

export function statusName(status: string): string {
  return STATUSES.get(status) ?? status;
}

function readInvestigation(value: unknown): Investigation | undefined {
  const v = object(value);
  const status = line(v.status, 20);
  if (status === '') return undefined;
  const change = object(v.suggested_change);
  const file = line(change.file, 200);
  return {
    session: token(v.session_id),
    status,
    summary: text(v.summary, 600),
    confidence: line(v.confidence, 20),
    change: file === '' ? undefined : { file, description: text(change.description, 500) },
    url: line(v.url, 2000),
    reason: text(v.reason, 300),
  };
}

export function rank(severity: string): number {
  return SEVERITIES.indexOf(severity as Severity) + 1;
}

/** Reads a stored alert. Returns undefined if the value is not an alert. */
export function readAlert(seq: number, value: unknown): Alert | undefined {
  const v = object(value);
  const severity = v.severity as Severity;
  const id = token(v.id);
  const time = moment(v.timestamp);
  if (id === '' || time === 0 || rank(severity) === 0 || !Number.isSafeInteger(seq) || seq < 1) return undefined;
  const resolves = [v.resolves, ...list(v.also_resolves)].map(token).filter((other) => other !== '');
  return {
    seq,
    id,
    severity,
    category: line(v.category, 64),
    title: line(v.title, 200),
    detail: text(v.detail, 2000),
    time,
    source: line(v.source, 100),
    app: token(v.app),
    url: line(v.url, 2000),
    context: object(v.context),
    key: token(v.dedup_key),
    correlation: token(v.correlation_id),
    count: Math.max(1, Math.trunc(number(v.count))),
    revises: token(v.revises),
    resolves,
    investigation: readInvestigation(v.investigation),
  };
}
