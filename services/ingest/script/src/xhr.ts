// Reports requests by XMLHttpRequest. A synchronous request that fails is not reported, because it
// has no events.

import { run } from './guard.ts';
import type { PageRequest, Requests } from './request.ts';
import { call, wrap } from './wrap.ts';

const EVENTS = ['loadstart', 'load', 'error', 'timeout', 'abort'];

export function watchXHR(requests: Requests): void {
  const watched = new WeakMap<XMLHttpRequest, { method: unknown; url: unknown; begun?: PageRequest | undefined }>();

  wrap(XMLHttpRequest.prototype, 'open', (original) => (_, self, args) => {
    const answer = call(original, self, args);
    run(() => {
      const xhr = self as XMLHttpRequest;
      const [method, url] = args;
      const known = watched.get(xhr);
      watched.set(xhr, { method, url, begun: requests.begin(method, url) });
      if (known) return; // it was opened before and has the listeners
      for (let i = 0; i < EVENTS.length; i++) xhr.addEventListener(EVENTS[i] as string, ({ type }) => run(() => event(xhr, type)));
    });
    return answer;
  });

  function event(xhr: XMLHttpRequest, type: string): void {
    const request = watched.get(xhr);
    if (!request) return;
    if (type === 'loadstart') {
      request.begun = requests.begin(request.method, request.url);
      return;
    }
    const { begun } = request;
    request.begun = undefined;
    if (!begun) return;
    if (type === 'load') requests.answered(begun, xhr.status);
    else if (type !== 'abort') requests.failed(begun, type === 'timeout' ? 'timeout' : 'network error');
  }
}
