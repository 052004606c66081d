// Reports uncaught errors and unhandled rejections.

import { MAX_MESSAGE, MAX_URL, type Log } from './event.ts';
import { fingerprintOf } from './fingerprint.ts';
import { listen, read } from './guard.ts';
import type { Reporter } from './report.ts';
import type { Stacks } from './stack.ts';
import { clip } from './text.ts';
import { errorText, inline } from './value.ts';

export function watchErrors(reporter: Reporter, stacks: Stacks): void {
  listen(window, 'error', (e) => {
    const event = e as ErrorEvent;
    if (typeof event.message !== 'string') return; // an image or a script failed to load
    reporter.report('log', () => {
      const { error, filename } = event;
      const log = thrown('Uncaught ', error, stacks);
      if (error === undefined || error === null) log.message = clip(event.message, MAX_MESSAGE); // "Script error." of another origin
      if (filename) log.source = clip(`${filename}:${event.lineno}:${event.colno}`, MAX_URL);
      return log;
    });
  });
  listen(window, 'unhandledrejection', (e) => {
    reporter.report('log', () => thrown('Unhandled rejection: ', (e as PromiseRejectionEvent).reason, stacks));
  });
}

/** Returns the log of a thrown value, which may be anything. */
function thrown(prefix: string, value: unknown, stacks: Stacks): Log {
  const text = errorText(value);
  const stack = text === undefined ? undefined : stacks.clean(read(() => (value as Error).stack));
  return {
    level: 'error',
    message: clip(prefix + (text ?? inline(value, MAX_MESSAGE)), MAX_MESSAGE),
    stack,
    source: stacks.position(stack),
    fingerprint: fingerprintOf(value),
  };
}
