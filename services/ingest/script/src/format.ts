// Formats a call of console.error: its message, as the console writes it, and its arguments as
// JSON.

import { MAX_ARGS, MAX_MESSAGE } from './event.ts';
import type { Json } from './json.ts';
import { clip } from './text.ts';
import { inline, plain } from './value.ts';

const MAX_SHOWN = 20; // arguments
const MAX_INLINE = 256; // bytes of an object in the message; args has more of it

/** Returns the arguments as one line. Replaces the format specifiers of the first one: %s %d %i %f %o %O %j; removes %c. */
export function message(args: readonly unknown[]): string {
  let used = 0;
  let text = '';
  if (typeof args[0] === 'string') {
    used = 1;
    text = clip(args[0], MAX_MESSAGE).replace(/%[sdifoOjc%]/g, (specifier) => {
      if (specifier === '%%') return '%';
      if (used >= args.length || used >= MAX_SHOWN) return specifier;
      const value = args[used++];
      return specifier === '%c' ? '' : show(value);
    });
  }
  for (; used < args.length && used < MAX_SHOWN; used++) {
    text += (used ? ' ' : '') + show(args[used]);
  }
  return clip(text, MAX_MESSAGE);
}

function show(value: unknown): string {
  return inline(value, typeof value === 'string' ? MAX_MESSAGE : MAX_INLINE);
}

/** Returns the arguments as JSON, or undefined if the message contains all of them. */
export function argumentsOf(args: readonly unknown[]): Json[] | undefined {
  if (args.length === 0 || (args.length === 1 && typeof args[0] === 'string')) return undefined;
  const room = { left: MAX_ARGS };
  const list: Json[] = [];
  for (let i = 0; i < args.length && i < MAX_SHOWN && room.left > 0; i++) list.push(plain(args[i], room));
  return list;
}
