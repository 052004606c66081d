// One request of the page, from its start to its end. Headers and bodies are not read.

import type { Config } from './config.ts';
import { MAX_MESSAGE, MAX_NAME, MAX_URL, milliseconds } from './event.ts';
import { listen, read } from './guard.ts';
import type { Reporter } from './report.ts';
import { clip } from './text.ts';
import { errorText, inline } from './value.ts';

export interface Request {
  readonly method: string;
  readonly url: string;
  readonly start: number;
}

export class Requests {
  private leaving = false;

  constructor(
    private readonly reporter: Reporter,
    private readonly config: Config,
  ) {
    // A request that ends because the page is left did not fail.
    listen(window, 'pagehide', () => (this.leaving = true));
    listen(window, 'pageshow', () => (this.leaving = false));
  }

  /** Starts a request. Requests to ingest, and those that are not HTTP, are ignored. */
  begin(method: unknown, url: unknown): Request | undefined {
    const target = read(() => new URL(String(url), document.baseURI));
    if (!target || !/^https?:$/.test(target.protocol) || target.href.startsWith(this.config.endpoint)) return undefined;
    const name = read(() => String(method ?? 'GET')) || 'GET';
    return { method: clip(name.toUpperCase(), MAX_NAME), url: clip(target.href, MAX_URL), start: performance.now() };
  }

  /** A request that was answered. An opaque answer has no known status. */
  answered(request: Request, status: unknown): void {
    if (typeof status !== 'number' || !(status >= 1 && status <= 999)) return;
    this.report(request, Math.floor(status), undefined);
  }

  failed(request: Request, error: unknown): void {
    if (this.leaving) return;
    this.report(request, 0, clip(errorText(error) ?? inline(error, MAX_MESSAGE), MAX_MESSAGE));
  }

  private report({ method, url, start }: Request, status: number, error: string | undefined): void {
    const duration_ms = milliseconds(performance.now() - start);
    this.reporter.report('network', () => ({ method, url, status, duration_ms, error }));
  }
}
