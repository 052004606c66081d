// Sends a batch to ingest.

import type { Config } from './config.ts';
import { read } from './guard.ts';
import type { Line, Outcome } from './send.ts';

/** Statuses that are worth a retry. Other refusals would repeat. */
const RETRY: readonly number[] = [408, 425, 429, 500, 502, 503, 504];
const LOOPBACK = /^https?:\/\/(localhost|[^/]*\.localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/;

/**
 * The connection to ingest. A page of this machine, or one with a token, may read its answers;
 * others learn only whether there was one. warn informs the page's author, once, that ingest
 * refuses.
 */
export function openLine(config: Config, warn: (text: string) => void): Line {
  const send = fetch;
  const nav = navigator;
  const readable = config.token !== undefined || LOOPBACK.test(self.origin);
  const headers: Record<string, string> = { 'Content-Type': 'text/plain' };
  if (config.token) headers['Authorization'] = 'Bearer ' + config.token;
  let warned = false;

  async function outcome(answer: Response): Promise<Outcome> {
    // Until all of it has been read, a request counts towards the browser's bound of kept-alive
    // requests, and there would be no room for the next.
    const text = await answer.text();
    if (answer.ok || answer.type === 'opaque') return 'done';
    if (RETRY.indexOf(answer.status) >= 0) return 1000 * (Number(answer.headers.get('Retry-After')) || 0);
    if (!warned) {
      warned = true;
      const how = answer.status === 401 ? ' (the script tag has data-token for it)' : '';
      warn(`tocsin.js: ${config.endpoint} answers ${answer.status}${how}: ${text.slice(0, 500)}`);
    }
    return 'done';
  }

  return {
    post: async (body) =>
      outcome(
        await send.call(window, config.endpoint, {
          method: 'POST',
          body,
          headers,
          keepalive: true,
          mode: readable ? 'cors' : 'no-cors',
          credentials: 'omit',
          cache: 'no-store',
        }),
      ),
    // A beacon cannot carry a token.
    beacon: (body) => config.token === undefined && read(() => nav.sendBeacon(config.endpoint, body)) === true,
  };
}
