// Puts a function of ours in front of one of the browser's.

import { run } from './guard.ts';

export type Callable = (...args: never[]) => unknown;

/** What gets the calls of a wrapped function. */
export type Apply = (original: Callable, self: unknown, args: unknown[]) => unknown;

/** Calls a function with the receiver and the arguments that it was meant for. */
export const call: (f: Callable, self: unknown, args: readonly unknown[]) => unknown = Reflect.apply as never;

const BrowserProxy = Proxy;

/**
 * Replaces a method by a proxy of itself, so that it looks as before: name,
 * length and whatever a page or a library has put on it. What make returns gets
 * each call, and must pass it on to the original. Where the page has frozen the
 * owner, nothing is replaced.
 */
export function wrap(owner: object, name: string, make: (original: Callable) => Apply): void {
  run(() => {
    const before = Object.getOwnPropertyDescriptor(owner, name);
    const original = (owner as Record<string, unknown>)[name];
    if (typeof original !== 'function' || (before && !before.configurable && !before.writable)) return;
    const apply = make(original as Callable);
    Object.defineProperty(owner, name, {
      value: new BrowserProxy(original, { apply }),
      writable: true,
      configurable: before ? before.configurable === true : true,
      enumerable: before ? before.enumerable === true : true,
    });
  });
}
