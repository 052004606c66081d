// Stacks without the frames of this script, and the position at which they begin.

import { MAX_STACK } from './event.ts';
import { clip } from './text.ts';

const MAX_FRAMES = 50;
const MAX_PLACE = 1 << 10; // units of a frame that are looked at

/** file:line:col at the end of a frame, as Chromium, Firefox and Safari write it. */
const PLACE = /((?:[a-z][a-z-]*:\/\/|\/)[^\s()]*:\d+:\d+)\)?$/;

export class Stacks {
  /** own is the URL of this script, empty if it is unknown. */
  constructor(private readonly own: string) {}

  /** The stack to send: without the frames of this script, bounded. */
  clean(stack: unknown): string | undefined {
    if (typeof stack !== 'string' || stack === '') return undefined;
    const lines = stack.slice(0, 2 * MAX_STACK).split('\n', MAX_FRAMES);
    const theirs = this.own ? lines.filter((line) => line.indexOf(this.own + ':') < 0) : lines;
    return clip(theirs.join('\n'), MAX_STACK);
  }

  /** The stack of the caller of this script. */
  here(): string | undefined {
    const stack = this.clean(new Error().stack);
    return stack?.replace(/^Error\n/, '') || undefined;
  }

  /** file:line:col of the innermost frame. */
  place(stack: string | undefined): string | undefined {
    const lines = stack ? stack.split('\n') : [];
    for (let i = 0; i < lines.length; i++) {
      const found = PLACE.exec((lines[i] as string).slice(-MAX_PLACE));
      if (found) return found[1];
    }
    return undefined;
  }
}
