// What the page writes by console.error and console.warn. The console writes
// it as before.

import type { Log } from './event.ts';
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
      reporter.tell('log', () => line(level, args, stacks));
      return call(original, self, args);
    });
  }
}

function line(level: Log['level'], args: readonly unknown[], stacks: Stacks): Log {
  const stack = stackOf(args, stacks) ?? stacks.here();
  return { level, message: message(args), stack, source: stacks.place(stack), args: argumentsOf(args) };
}

/** The stack of the first error among the arguments: where it was made says more than where it was logged. */
function stackOf(args: readonly unknown[], stacks: Stacks): string | undefined {
  for (let i = 0; i < args.length && i < 5; i++) {
    const value = args[i];
    if (typeof value !== 'object' || errorText(value) === undefined) continue;
    const stack = stacks.clean(read(() => (value as Error).stack));
    if (stack) return stack;
  }
  return undefined;
}
