// Watches fetch. The page gets what the browser's own fetch answers.

import { read, run } from './guard.ts';
import type { Request as Begun, Requests } from './request.ts';
import { call, wrap } from './wrap.ts';

/** What fetch answers with, also after the page has put a Promise of its own in the place of the browser's. */
const BrowserPromise = Promise;

export function watchFetch(requests: Requests): void {
  wrap(window, 'fetch', (original) => {
    const { method } = {
      method(this: unknown, ...args: unknown[]): unknown {
        const begun = run(() => begin(requests, args));
        const answer = call(original, this, args);
        return begun ? follow(requests, begun, answer, args) : answer;
      },
    };
    return method;
  });
}

function begin(requests: Requests, [input, init]: unknown[]): Begun | undefined {
  const request = input instanceof Request ? input : undefined;
  const method = read(() => (init as RequestInit | undefined)?.method) ?? request?.method;
  return requests.begin(method, request ? request.url : input);
}

/**
 * The promise that the page gets instead of the browser's: with two, one of
 * them would count as handled, or as not handled, without the page's doing.
 */
function follow(requests: Requests, begun: Begun, answer: unknown, args: unknown[]): unknown {
  if (!(answer instanceof BrowserPromise)) return answer;
  const answered = (response: Response): Response => {
    run(() => requests.answered(begun, response.status));
    return response;
  };
  const failed = (error: unknown): never => {
    run(() => {
      if (!aborted(args)) requests.failed(begun, error);
    });
    throw error;
  };
  return run(() => answer.then(answered, failed)) ?? answer;
}

/** Whether the page itself gave up. A timeout is a failure all the same. */
function aborted([input, init]: unknown[]): boolean {
  const signal =
    read(() => (init as RequestInit | undefined)?.signal) ?? (input instanceof Request ? input.signal : undefined);
  return signal?.aborted === true && read(() => (signal.reason as DOMException).name) !== 'TimeoutError';
}
