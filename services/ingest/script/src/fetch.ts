// Reports requests by fetch. The page gets the result of the browser's own fetch, and sees the
// same errors as without this script.
//
// Browsers mute errors of scripts of another origin: they raise no unhandledrejection event for
// an error whose top frame is of this script. So the browser creates its errors without frames
// while this script calls it, and this script adds the page's frames.

import { read, run } from './guard.ts';
import type { PageRequest, Requests } from './request.ts';
import { call, wrap, type Callable } from './wrap.ts';

/** The class of the promises that fetch returns, also if the page has replaced Promise. */
const BrowserPromise = (async () => {})().constructor as PromiseConstructor;

/** What V8 adds to Error. */
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
      const answer = native ? withoutFrames(original, self, args) : call(original, self, args);
      const promised = read(() => answer instanceof BrowserPromise || answer instanceof Promise);
      return promised ? follow(requests, begun, answer as Promise<unknown>, args, caller) : answer;
    };
  });
}

/** Calls a function of the browser. The errors that it creates have no frames. */
function withoutFrames(original: Callable, self: unknown, args: unknown[]): unknown {
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

function begin(requests: Requests, [input, init]: unknown[]): PageRequest | undefined {
  const request = input instanceof Request ? input : undefined;
  const method = read(() => (init as RequestInit | undefined)?.method) ?? request?.method;
  return requests.begin(method, request ? request.url : input);
}

/**
 * Reports the end of a request. The page gets a promise of its own, to which this script adds no
 * handlers: whether a rejection is handled depends on the page alone.
 */
function follow(
  requests: Requests,
  begun: PageRequest | undefined,
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

/** Whether the page itself aborted the request. A timeout counts as a failure. */
function aborted([input, init]: unknown[]): boolean {
  const signal = read(() => (init as RequestInit | undefined)?.signal ?? (input instanceof Request ? input.signal : undefined));
  return read(() => signal?.aborted === true && (signal.reason as DOMException | undefined)?.name !== 'TimeoutError') === true;
}
