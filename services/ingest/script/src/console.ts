// Reports calls of console.error and console.warn, and passes them on.

import type { Log } from './event.ts';
import { fingerprintOf } from './fingerprint.ts';
import { argumentsOf, message } from './format.ts';
import { read } from './guard.ts';
import type { Reporter } from './report.ts';
import type { Stacks } from './stack.ts';
import { errorText } from './value.ts';
import { call, wrap } from './wrap.ts';

export function watchConsole(reporter: Reporter, stacks: Stacks): void {
  watch('error');
  watch('warn');

  function watch(level: Log['level']): void {
    wrap(console, level, (original) => (_, self, args) => {
      reporter.report('log', () => line(level, args, stacks));
      return call(original, self, args);
    });
  }
}

function line(level: Log['level'], args: readonly unknown[], stacks: Stacks): Log {
  const error = errorAmong(args, stacks);
  const stack = error?.stack ?? stacks.here();
  return {
    level,
    message: message(args),
    stack,
    source: stacks.position(stack),
    fingerprint: error && fingerprintOf(error.value),
    args: argumentsOf(args),
  };
}

/** The first error among the arguments: its stack is better than that of the log call. */
function errorAmong(args: readonly unknown[], stacks: Stacks): { value: unknown; stack: string } | undefined {
  for (let i = 0; i < args.length && i < 5; i++) {
    const value = args[i];
    if (typeof value !== 'object' || errorText(value) === undefined) continue;
    const stack = stacks.clean(read(() => (value as Error).stack));
    if (stack) return { value, stack };
  }
  return undefined;
}
