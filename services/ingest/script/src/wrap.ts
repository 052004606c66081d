// Puts a function of ours where one of the browser's is, such that a page that
// looks doesn't see much of a difference.

import { run } from './guard.ts';

type Callable = (this: never, ...args: never[]) => unknown;

/** Calls a function with the receiver and the arguments that a wrapper got. Taken before a page can replace it. */
export const call: (f: Callable, receiver: unknown, args: readonly unknown[]) => unknown = Reflect.apply as never;

/**
 * Replaces a method. What make returns gets what callers pass, and must call
 * the original. Where the page has frozen the owner, nothing is replaced.
 */
export function wrap(owner: object, name: string, make: (original: Callable) => Callable): void {
  run(() => {
    const before = Object.getOwnPropertyDescriptor(owner, name);
    const original = (owner as Record<string, unknown>)[name];
    if (typeof original !== 'function' || (before && !before.configurable && !before.writable)) return;
    const wrapper = make(original as Callable);
    disguise(wrapper, original);
    Object.defineProperty(owner, name, {
      value: wrapper,
      writable: true,
      configurable: before ? before.configurable === true : true,
      enumerable: before ? before.enumerable === true : true,
    });
  });
}

/** Gives the wrapper the name, length, text and whatever else the original has. */
function disguise(wrapper: Callable, original: object): void {
  const text = { value: () => Function.prototype.toString.call(original), writable: true, configurable: true };
  Object.defineProperty(wrapper, 'toString', text);
  for (const key of Reflect.ownKeys(original)) {
    const property = Object.getOwnPropertyDescriptor(original, key);
    if (key !== 'prototype' && key !== 'arguments' && key !== 'caller' && property) {
      run(() => Object.defineProperty(wrapper, key, property));
    }
  }
}
