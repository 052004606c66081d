// Reports the requests of the page. Headers and bodies are not read.

import type { Config } from './config.ts';
import { MAX_MESSAGE, MAX_NAME, MAX_URL, milliseconds } from './event.ts';
import { listen, read } from './guard.ts';
import type { Reporter } from './report.ts';
import { clip } from './text.ts';
import { errorText, inline } from './value.ts';

/** A request that has begun. */
export interface PageRequest {
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
    // A request that ends because the user leaves the page did not fail.
    listen(window, 'pagehide', () => (this.leaving = true));
    listen(window, 'pageshow', () => (this.leaving = false));
  }

  /** Begins a request. Returns undefined for one to ingest, and one that is not HTTP. */
  begin(method: unknown, url: unknown): PageRequest | undefined {
    const target = read(() => new URL(String(url), document.baseURI));
    if (!target || !/^https?:$/.test(target.protocol) || target.href.startsWith(this.config.endpoint)) return undefined;
    const name = read(() => String(method ?? 'GET')) || 'GET';
    return { method: clip(name.toUpperCase(), MAX_NAME), url: clip(target.href, MAX_URL), start: performance.now() };
  }

  /** Reports a request that was answered, unless the status is unknown, as that of an opaque response. */
  answered(request: PageRequest, status: unknown): void {
    if (typeof status !== 'number' || !(status >= 1 && status <= 999)) return;
    this.report(request, Math.floor(status), undefined);
  }

  /** Reports a request that got no answer. */
  failed(request: PageRequest, error: unknown): void {
    if (this.leaving) return;
    this.report(request, 0, clip(errorText(error) ?? inline(error, MAX_MESSAGE), MAX_MESSAGE));
  }

  private report({ method, url, start }: PageRequest, status: number, error: string | undefined): void {
    const duration_ms = milliseconds(performance.now() - start);
    this.reporter.report('network', () => ({ method, url, status, duration_ms, error }));
  }
}
