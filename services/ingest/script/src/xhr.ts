// Watches XMLHttpRequest.

import { run } from './guard.ts';
import type { Request, Requests } from './request.ts';
import { call, wrap } from './wrap.ts';

const OPENED = 1;

export function watchXHR(requests: Requests): void {
  const opened = new WeakMap<object, { method: unknown; url: unknown }>();

  wrap(XMLHttpRequest.prototype, 'open', (original) => {
    const { method } = {
      method(this: XMLHttpRequest, ...args: unknown[]): unknown {
        const answer = call(original, this, args);
        run(() => opened.set(this, { method: args[0], url: args[1] }));
        return answer;
      },
    };
    return method;
  });

  wrap(XMLHttpRequest.prototype, 'send', (original) => {
    const { method } = {
      method(this: XMLHttpRequest, ...args: unknown[]): unknown {
        const failed = run(() => {
          const target = this.readyState === OPENED ? opened.get(this) : undefined;
          const request = target && requests.begin(target.method, target.url);
          opened.delete(this); // a second send is a mistake, and no request
          return request && follow(this, request);
        });
        try {
          return call(original, this, args);
        } catch (error) {
          failed?.(error); // only one that waits for its answer throws
          throw error;
        }
      },
    };
    return method;
  });

  /** Waits for the end; what it returns ends it with a failure. */
  function follow(xhr: XMLHttpRequest, request: Request): (error: unknown) => void {
    const ends = ['load', 'error', 'timeout', 'abort'];
    const end = (f: () => void): void => {
      run(() => {
        for (let i = 0; i < ends.length; i++) xhr.removeEventListener(ends[i] as string, ended);
        f();
      });
    };
    const ended = ({ type }: { type: string }): void =>
      end(() => {
        if (type === 'load') requests.answered(request, xhr.status);
        else if (type !== 'abort') requests.failed(request, type === 'timeout' ? 'timeout' : 'network error');
      });
    for (let i = 0; i < ends.length; i++) xhr.addEventListener(ends[i] as string, ended);
    return (error) => end(() => requests.failed(request, error));
  }
}
