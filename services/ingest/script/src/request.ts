// One request of the page, from its beginning to its end. No headers and no
// bodies are looked at.

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
    // What breaks off because the page goes did not fail.
    listen(window, 'pagehide', () => (this.leaving = true));
    listen(window, 'pageshow', () => (this.leaving = false));
  }

  /** Begins a request. It is none of ours when it is no HTTP, or goes to the intake. */
  begin(method: unknown, url: unknown): Request | undefined {
    const target = read(() => new URL(String(url), document.baseURI));
    if (!target || !/^https?:$/.test(target.protocol) || target.href.startsWith(this.config.endpoint)) return undefined;
    const name = read(() => String(method ?? 'GET')) || 'GET';
    return { method: clip(name.toUpperCase(), MAX_NAME), url: clip(target.href, MAX_URL), start: performance.now() };
  }

  /** A request that was answered. An opaque answer has no status that could be told. */
  answered(request: Request, status: unknown): void {
    if (typeof status !== 'number' || !(status >= 1 && status <= 999)) return;
    this.tell(request, Math.floor(status), undefined);
  }

  failed(request: Request, error: unknown): void {
    if (this.leaving) return;
    this.tell(request, 0, clip(errorText(error) ?? inline(error, MAX_MESSAGE), MAX_MESSAGE));
  }

  private tell({ method, url, start }: Request, status: number, error: string | undefined): void {
    const duration_ms = milliseconds(performance.now() - start);
    this.reporter.tell('network', () => ({ method, url, status, duration_ms, error }));
  }
}
