// Watches fetch. The page gets what the browser's own fetch answers, and sees
// of its errors what it would see without us.
//
// A script of another origin is muted: an error that has one of its frames on
// top raises no event of unhandled rejections. So the browser makes its errors
// without frames while it is called from here, and they get those of the page.

import { read, run } from './guard.ts';
import type { Request as Begun, Requests } from './request.ts';
import { call, wrap, type Callable } from './wrap.ts';

/** What fetch answers with, even where the page has put a Promise of its own in the place of the browser's. */
const BrowserPromise = (async () => {})().constructor as PromiseConstructor;

/** Error as V8 has it. */
interface V8 {
  stackTraceLimit?: number;
  captureStackTrace?(holder: object, below: unknown): void;
}

export function watchFetch(requests: Requests): void {
  wrap(window, 'fetch', (original) => {
    const native = /\[native code\]/.test(Function.prototype.toString.call(original));
    return function serve(_, self, args) {
      const begun = run(() => begin(requests, args));
      const caller: { stack?: unknown } = {};
      if (native) run(() => (Error as V8).captureStackTrace?.(caller, serve));
      const answer = native ? unframed(original, self, args) : call(original, self, args);
      const promised = read(() => answer instanceof BrowserPromise || answer instanceof Promise);
      return promised ? follow(requests, begun, answer as Promise<unknown>, args, caller) : answer;
    };
  });
}

/** Calls a function of the browser's such that errors made meanwhile have no frames. */
function unframed(original: Callable, self: unknown, args: unknown[]): unknown {
  const limit = read(() => (Error as V8).stackTraceLimit);
  const limited = typeof limit === 'number' && setLimit(0);
  try {
    return call(original, self, args);
  } finally {
    if (limited) setLimit(limit);
  }
}

function setLimit(limit: number): boolean {
  return read(() => ((Error as V8).stackTraceLimit = limit)) !== undefined; // undefined where it is frozen
}

function begin(requests: Requests, [input, init]: unknown[]): Begun | undefined {
  const request = input instanceof Request ? input : undefined;
  const method = read(() => (init as RequestInit | undefined)?.method) ?? request?.method;
  return requests.begin(method, request ? request.url : input);
}

/**
 * Looks at the end of a request. The page gets a promise of its own, which
 * nothing of ours comes in touch with: whether a rejection is handled is up to
 * the page alone.
 */
function follow(
  requests: Requests,
  begun: Begun | undefined,
  answer: Promise<unknown>,
  args: unknown[],
  caller: { stack?: unknown },
): unknown {
  const answered = (response: unknown): void => {
    if (begun) run(() => requests.answered(begun, (response as Response).status));
  };
  const failed = (error: unknown): void => {
    read(() => addFrames(error, caller.stack));
    if (begun && !aborted(args)) run(() => requests.failed(begun, error));
  };
  return read(() => {
    void answer.then(answered, failed);
    return answer.then();
  }) ?? answer;
}

function addFrames(error: unknown, stack: unknown): void {
  if (!(error instanceof Error) || typeof error.stack !== 'string' || typeof stack !== 'string') return;
  const frames = stack.indexOf('\n    at ');
  if (frames >= 0 && error.stack.indexOf('\n    at ') < 0) error.stack += stack.slice(frames);
}

/** Whether the page itself gave up. A timeout is a failure all the same. */
function aborted([input, init]: unknown[]): boolean {
  const signal = read(() => (init as RequestInit | undefined)?.signal ?? (input instanceof Request ? input.signal : undefined));
  return read(() => signal?.aborted === true && (signal.reason as DOMException | undefined)?.name !== 'TimeoutError') === true;
}
