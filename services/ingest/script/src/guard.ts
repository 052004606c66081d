// Nothing of ours may be thrown into the page: what goes wrong here is counted
// and told, and the page goes on.

let faults = 0;

/** How many times our own code went wrong since it was asked last. */
export function takeFaults(): number {
  const n = faults;
  faults = 0;
  return n;
}

/** Runs f; when that throws, the answer is undefined. */
export function run<T>(f: () => T): T | undefined {
  try {
    return f();
  } catch {
    faults++;
    return undefined;
  }
}

/** Reads a value of the page's, which may have a getter or a proxy that throws. That is not our fault. */
export function read<T>(f: () => T): T | undefined {
  try {
    return f();
  } catch {
    return undefined;
  }
}

/** Listens without ever throwing into the dispatch, and without delaying it. */
export function listen(target: EventTarget, type: string, f: (e: Event) => void, capture = true): void {
  run(() => target.addEventListener(type, (e) => run(() => f(e)), { capture, passive: true }));
}
