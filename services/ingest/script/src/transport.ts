// Sends a batch to ingest.

import type { Config } from './config.ts';
import { read } from './guard.ts';
import type { Transport, Outcome } from './send.ts';

/** Statuses that are worth a retry. */
const RETRY: readonly number[] = [408, 425, 429, 500, 502, 503, 504];
const LOOPBACK = /^https?:\/\/(localhost|[^/]*\.localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/;

/**
 * Returns the transport to ingest. A page of this machine, or one with a token, may read the
 * answers; others learn only whether there was one. warn is called once if ingest refuses events.
 */
export function httpTransport(config: Config, warn: (text: string) => void): Transport {
  const send = fetch;
  const nav = navigator;
  const readable = config.token !== undefined || LOOPBACK.test(self.origin);
  const headers: Record<string, string> = { 'Content-Type': 'text/plain' };
  if (config.token) headers['Authorization'] = 'Bearer ' + config.token;
  let warned = false;

  async function outcome(answer: Response): Promise<Outcome> {
    // The browser bounds the bytes of keepalive requests, and counts a request until its answer
    // has been read.
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
