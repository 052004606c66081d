// Converts any value that a page logs or throws to plain JSON, also cyclic objects, proxies and
// arrays of a million entries. It calls no getters.

import { read } from './guard.ts';
import { encode, type Json, type JsonObject } from './json.ts';
import { clip } from './text.ts';

const MAX_DEPTH = 4;
const MAX_ENTRIES = 20;
const MAX_TEXT = 1 << 10;

/** How many bytes are left for all values together. */
export interface Room {
  left: number;
}

/** Returns a value as JSON that takes about room.left bytes at most, and reduces room.left. */
export function plain(value: unknown, room: Room): Json {
  return convert(value, room, []);
}

/** Returns a value as text of at most max bytes. */
export function inline(value: unknown, max: number): string {
  if (typeof value === 'string') return clip(value, max);
  const json = plain(value, { left: max });
  return clip(typeof json === 'string' ? json : encode(json), max);
}

function convert(value: unknown, room: Room, above: object[]): Json {
  if (room.left <= 0) return '\u2026';
  room.left -= 8; // about what a number takes, or the punctuation around a text
  switch (typeof value) {
    case 'string':
      return text(value, room);
    case 'number':
      return isFinite(value) ? value : String(value);
    case 'boolean':
      return value;
    case 'object':
      if (value === null) return null;
      return read(() => convertObject(value, room, above)) ?? '[unreadable]';
    case 'function':
      return text(`[function ${String(read(() => (value as { name?: unknown }).name)) || 'anonymous'}]`, room);
    case 'bigint':
      return text(`${value}n`, room);
    default: // undefined, symbol
      return text(String(value), room);
  }
}

function text(value: string, room: Room): string {
  const cut = clip(value, Math.min(MAX_TEXT, Math.max(8, room.left)));
  room.left -= cut.length;
  return cut;
}

function convertObject(value: object, room: Room, above: object[]): Json {
  if (above.indexOf(value) >= 0) return '[circular]';
  const special = specialText(value);
  if (special !== undefined) return text(special, room);
  if (above.length >= MAX_DEPTH) return Array.isArray(value) ? '[array]' : '[object]';
  const path = above.concat([value]);
  return Array.isArray(value) ? list(value, room, path) : members(value, room, path);
}

function list(value: readonly unknown[], room: Room, path: object[]): Json[] {
  const items: Json[] = [];
  const n = Math.min(value.length, MAX_ENTRIES);
  for (let i = 0; i < n && room.left > 0; i++) items.push(member(value, String(i), room, path));
  if (value.length > items.length) items.push(`\u2026 ${value.length - items.length} more`);
  return items;
}

function members(value: object, room: Room, path: object[]): JsonObject {
  const object: JsonObject = Object.create(null);
  const names = Object.keys(value);
  for (let i = 0; i < names.length; i++) {
    if (i >= MAX_ENTRIES || room.left <= 0) {
      object['\u2026'] = `${names.length - i} more`;
      break;
    }
    const name = text(names[i] as string, room);
    object[name] = member(value, names[i] as string, room, path);
  }
  return object;
}

function member(value: object, name: string, room: Room, path: object[]): Json {
  const property = read(() => Object.getOwnPropertyDescriptor(value, name));
  if (!property) return null; // a hole in an array
  return 'value' in property ? convert(property.value, room, path) : '[getter]';
}

/** Returns a text for an object whose members are of little use or may be very many, else undefined. */
function specialText(value: object): string | undefined {
  const error = errorText(value);
  if (error !== undefined) return error;
  if (ArrayBuffer.isView(value)) return `[${value.constructor.name}, ${value.byteLength} bytes]`;
  if (value instanceof Date) return isFinite(+value) ? value.toISOString() : 'Invalid Date';
  if (value instanceof RegExp) return String(value);
  if (value instanceof Map || value instanceof Set) return `[${value instanceof Map ? 'Map' : 'Set'} of ${value.size}]`;
  if (value instanceof Promise) return '[Promise]';
  if (typeof Node === 'function' && value instanceof Node) {
    const id = value instanceof Element ? read(() => Element.prototype.getAttribute.call(value, 'id')) : undefined;
    return `[${value.nodeName.toLowerCase()}${id ? '#' + id : ''}]`;
  }
  return typeof window !== 'undefined' && value === window ? '[window]' : undefined;
}

/** Returns a text such as "TypeError: x is undefined" for an error, undefined for any other value. */
export function errorText(value: unknown): string | undefined {
  if (!read(() => value instanceof Error || Object.prototype.toString.call(value) === '[object Error]')) return undefined;
  const error = value as { name?: unknown; message?: unknown };
  const name = String(read(() => String(error.name)) ?? 'Error');
  const message = read(() => String(error.message)) ?? '';
  return message ? `${name}: ${message}` : name;
}
