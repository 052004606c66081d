// This script must never throw into the page. It counts and reports its own faults.

let faults = 0;

/** Returns the number of faults since the last call. */
export function takeFaults(): number {
  const n = faults;
  faults = 0;
  return n;
}

/** Runs f, and returns undefined if it throws. */
export function run<T>(f: () => T): T | undefined {
  try {
    return f();
  } catch {
    faults++;
    return undefined;
  }
}

/** Reads a value of the page, whose getter or proxy may throw, which does not count as a fault. */
export function read<T>(f: () => T): T | undefined {
  try {
    return f();
  } catch {
    return undefined;
  }
}

/** Adds a passive listener that does not throw. */
export function listen(target: EventTarget, type: string, f: (e: Event) => void, capture = true): void {
  run(() => target.addEventListener(type, (e) => run(() => f(e)), { capture, passive: true }));
}
