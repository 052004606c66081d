// The events of POST /v1/events that a page can send, and their bounds. Ingest refuses a
// whole batch because of one invalid event, so events are always valid.

import type { Device } from './device.ts';
import { read } from './guard.ts';
import type { Json, JsonObject } from './json.ts';

/** Bounds of texts, in bytes as JSON. Together they keep an event well below MAX_BATCH_BYTES. */
export const MAX_MESSAGE = 4 << 10;
export const MAX_STACK = 16 << 10;
export const MAX_ARGS = 2 << 10;
export const MAX_URL = 2 << 10;
export const MAX_NAME = 256;

export interface Log {
  level: 'warn' | 'error';
  message: string;
  stack?: string | undefined;
  source?: string | undefined;
  fingerprint?: string[] | undefined;
  args?: Json[] | undefined;
}

export interface Network {
  method: string;
  url: string;
  status: number;
  duration_ms: number;
  error?: string | undefined;
}

export interface Vitals {
  fcp_ms?: number;
  lcp_ms?: number;
  inp_ms?: number;
  ttfb_ms?: number;
  load_ms?: number;
  cls?: number;
  /** The device of a page load, if it is known. */
  device?: Device | undefined;
}

export interface Action {
  type: 'click' | 'submit' | 'navigate';
  target: string;
}

export interface Memory {
  used_bytes: number;
  limit_bytes: number;
}

export interface Security {
  type: string;
  message: string;
  blocked_url?: string | undefined;
}

export interface Payloads {
  log: Log;
  network: Network;
  vitals: Vitals;
  action: Action;
  memory: Memory;
  security: Security;
}

export type Kind = keyof Payloads;

/** The fields that all events of a page share. */
export interface Origin {
  app?: string | undefined;
  session?: string | undefined;
  release?: string | undefined;
}

/** Returns an event in the form that ingest accepts. */
export function toEvent<K extends Kind>(kind: K, payload: Payloads[K], origin: Origin, time: number, url: string): JsonObject {
  return {
    kind,
    app: origin.app,
    session: origin.session,
    release: origin.release,
    time: read(() => new Date(time).toISOString()), // else the time of arrival
    url: url || undefined,
    [kind]: { ...payload } as unknown as JsonObject,
  };
}

/** Rounds a duration to a tenth of a millisecond. An invalid one becomes 0. */
export function milliseconds(value: number): number {
  return value > 0 && isFinite(value) ? Math.round(value * 10) / 10 : 0;
}
