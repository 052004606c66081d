// What a call of console.error says: its message, as the console would write
// it, and its arguments as JSON.

import { MAX_ARGS, MAX_MESSAGE } from './event.ts';
import type { Json } from './json.ts';
import { clip } from './text.ts';
import { inline, plain } from './value.ts';

const MAX_SHOWN = 20;

/** The arguments as one line, with the directives of the first one filled in: %s %d %i %f %o %O %j, and %c gone. */
export function message(args: readonly unknown[]): string {
  let used = 0;
  let text = '';
  if (typeof args[0] === 'string') {
    used = 1;
    text = clip(args[0], MAX_MESSAGE).replace(/%[sdifoOjc%]/g, (directive) => {
      if (directive === '%%') return '%';
      if (used >= args.length || used >= MAX_SHOWN) return directive;
      const value = args[used++];
      return directive === '%c' ? '' : inline(value, MAX_ARGS);
    });
  }
  for (; used < args.length && used < MAX_SHOWN; used++) {
    text += (used ? ' ' : '') + inline(args[used], MAX_ARGS);
  }
  return clip(text, MAX_MESSAGE);
}

/** The arguments, unless they say no more than the message. */
export function argumentsOf(args: readonly unknown[]): Json[] | undefined {
  if (args.length === 0 || (args.length === 1 && typeof args[0] === 'string')) return undefined;
  const room = { left: MAX_ARGS };
  const list: Json[] = [];
  for (let i = 0; i < args.length && i < MAX_SHOWN && room.left > 0; i++) list.push(plain(args[i], room));
  return list;
}
