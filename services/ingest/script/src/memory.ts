// The memory that the page's scripts use, if the browser reports it.

import { run } from './guard.ts';
import type { Reporter } from './report.ts';

const EVERY = 30_000; // milliseconds
const MIN_CHANGE = 0.01; // relative to the last report

export function watchMemory(reporter: Reporter): void {
  const { memory } = performance as { memory?: { usedJSHeapSize: number; jsHeapSizeLimit: number } };
  if (!memory) return;
  let last = 0;
  const check = (): void => {
    const { usedJSHeapSize: used_bytes, jsHeapSizeLimit: limit_bytes } = memory;
    if (!(used_bytes > 0 && limit_bytes > 0) || Math.abs(used_bytes - last) <= last * MIN_CHANGE) return;
    last = used_bytes;
    reporter.report('memory', () => ({ used_bytes, limit_bytes }));
  };
  check();
  setInterval(() => run(check), EVERY);
}
