// Removes the frames of this script from stacks, and finds the position of the innermost frame.

import { MAX_STACK } from './event.ts';
import { clip } from './text.ts';

const MAX_FRAMES = 50;
const MAX_POSITION = 1 << 10; // UTF-16 units at the end of a frame that are searched

/** file:line:col at the end of a frame, as Chromium, Firefox and Safari write it. */
const POSITION = /((?:[a-z][a-z-]*:\/\/|\/)[^\s()]*:\d+:\d+)\)?$/;

export class Stacks {
  /** own is the URL of this script, or '' if it is unknown. */
  constructor(private readonly own: string) {}

  /** Returns the stack without the frames of this script, cut to its bounds. */
  clean(stack: unknown): string | undefined {
    if (typeof stack !== 'string' || stack === '') return undefined;
    const lines = stack.slice(0, 2 * MAX_STACK).split('\n', MAX_FRAMES);
    const theirs = this.own ? lines.filter((line) => line.indexOf(this.own + ':') < 0) : lines;
    return clip(theirs.join('\n'), MAX_STACK);
  }

  /** Returns the stack of the page's code that has called this script. */
  here(): string | undefined {
    const stack = this.clean(new Error().stack);
    return stack?.replace(/^Error\n/, '') || undefined;
  }

  /** Returns file:line:col of the innermost frame. */
  position(stack: string | undefined): string | undefined {
    const lines = stack ? stack.split('\n') : [];
    for (let i = 0; i < lines.length; i++) {
      const found = POSITION.exec((lines[i] as string).slice(-MAX_POSITION));
      if (found) return found[1];
    }
    return undefined;
  }
}
