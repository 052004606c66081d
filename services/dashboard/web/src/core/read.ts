// Reads JSON from the bus and the service. Values of an unexpected type are left
// out, and are never an error.

import { cut, oneLine, visible } from './text.ts';

export type Json = Record<string, unknown>;

export function object(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function objects(value: unknown): Json[] {
  return list(value).map(object);
}

/** Text of one line. */
export function line(value: unknown, limit = 400): string {
  return typeof value === 'string' ? cut(oneLine(value), limit) : '';
}

/** Text that may have several lines. */
export function text(value: unknown, limit = 4000): string {
  return typeof value === 'string' ? cut(visible(value), limit) : '';
}

/** An identifier, which is sent back unchanged and never shown. */
export function token(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function number(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

export function lines(value: unknown): string[] {
  return list(value)
    .filter((item) => typeof item === 'string')
    .map((item) => line(item));
}

/** A time in ms, or 0. */
export function moment(value: unknown): number {
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) ? ms : 0;
}
