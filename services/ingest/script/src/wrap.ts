// Wraps functions of the browser, so that this script sees their calls.

import { run } from './guard.ts';

export type Callable = (...args: never[]) => unknown;

/** A function that gets the calls of a wrapped function. */
export type Apply = (original: Callable, self: unknown, args: unknown[]) => unknown;

/** Calls a function with its original receiver and arguments. */
export const call: (f: Callable, self: unknown, args: readonly unknown[]) => unknown = Reflect.apply as never;

const BrowserProxy = Proxy;

/**
 * Replaces a method by a proxy of itself, which keeps its name, its length and every property that
 * a page or a library has set on it. The function that make returns gets each call, and must pass
 * it on to the original. If the page has frozen the owner, nothing is replaced.
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
