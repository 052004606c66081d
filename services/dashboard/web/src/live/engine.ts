// Owns the sockets and the clock: passes events to Source and History, and carries
// out their effects.

import { type Alert, readAlert } from '../core/alert.ts';
import { History } from '../core/history.ts';
import { type Notice, readNotice } from '../core/notices.ts';
import { type Effect, type Event, Source } from '../core/source.ts';
import { type Api, readAlerts, readSession, type Session } from './api.ts';
import { openBus } from './bus.ts';
import { type Connection, openStream } from './stream.ts';

/** The pause between pages of history, so that the page stays responsive. */
const PAGE_PAUSE = 25; // ms
/** The pause after a failed page of history, in ms. */
const RETRY_PAUSES = [500, 1000, 2000, 5000];

export interface Listener {
  /** The alerts have changed; fresh are those that have just arrived. */
  alerts(fresh: readonly Alert[]): void;
  notice(notice: Notice): void;
  session(session: Session): void;
  /** The source of live alerts, or since when there is none, may have changed. */
  connection(): void;
  /** The stream was recreated: the alerts of the old one are gone. */
  recreated(): void;
}

export class Engine {
  readonly source = new Source(Math.random);
  readonly history = new History();
  private stream: Connection | undefined;
  private timer = 0;
  private reading = false;
  private failures = 0;
  private recreations = 0;

  constructor(
    private readonly api: Api,
    private readonly listener: Listener,
  ) {}

  start(): void {
    this.dispatch({ type: 'start' });
    this.read();
    addEventListener('online', () => this.dispatch({ type: 'wake' }));
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.dispatch({ type: 'wake' });
    });
  }

  private dispatch(event: Event): void {
    const before = this.source.transport;
    for (const effect of this.source.on(event, Date.now())) this.do(effect);
    if (this.source.transport !== before || event.type === 'ws-closed' || event.type === 'sse-closed') this.listener.connection();
    clearTimeout(this.timer);
    const next = this.source.next();
    if (next > 0) this.timer = window.setTimeout(() => this.dispatch({ type: 'tick' }), Math.max(0, next - Date.now()));
  }

  private do(effect: Effect): void {
    switch (effect.type) {
      case 'read-session':
        readSession(this.api).then(
          (found) => {
            this.listener.session(found);
            this.dispatch({ type: 'session', bus: found.bus });
          },
          () => this.dispatch({ type: 'session-failed' }),
        );
        break;
      case 'open-ws':
        openBus(effect.bus, {
          alert: (seq, value) => this.receive(seq, value),
          notice: (seq, value) => {
            const notice = readNotice(value, seq);
            if (notice !== undefined) this.listener.notice(notice);
          },
          closed: () => this.dispatch({ type: 'ws-closed' }),
        }).then(
          () => this.dispatch({ type: 'ws-open' }),
          () => this.dispatch({ type: 'ws-closed' }),
        );
        break;
      case 'open-sse':
        this.stream = openStream(this.history.last, {
          open: () => this.dispatch({ type: 'sse-open' }),
          alert: (seq, value) => this.receive(seq, value),
          dropped: () => this.read(true),
          closed: () => this.dispatch({ type: 'sse-closed' }),
        });
        break;
      case 'close-sse':
        this.stream?.close();
        this.stream = undefined;
        break;
      case 'resync':
        this.read(true);
        break;
    }
  }

  private receive(seq: number, value: unknown): void {
    const alert = readAlert(seq, value);
    if (alert === undefined) return;
    const fresh = this.history.addLive(alert);
    if (fresh.length > 0) this.listener.alerts(fresh);
    this.read();
  }

  /** Reads missing alerts, one page at a time. */
  private read(resync = false): void {
    if (resync) this.history.resync();
    if (this.reading) return;
    const request = this.history.next();
    if (request === undefined) return;
    this.reading = true;
    readAlerts(this.api, request).then(
      (page) => {
        const newest = this.history.last;
        const added = this.history.addPage(request, page);
        this.failures = 0;
        const recreated = this.history.recreations !== this.recreations;
        this.recreations = this.history.recreations;
        if (recreated) this.listener.recreated();
        // Alerts that arrived while nothing was open count as new, earlier ones do not.
        const fresh = recreated || newest === 0 ? [] : added.filter((alert) => alert.seq > newest);
        this.listener.alerts(fresh);
        this.readLater(PAGE_PAUSE);
      },
      () => this.readLater(RETRY_PAUSES[Math.min(this.failures++, RETRY_PAUSES.length - 1)] as number),
    );
  }

  private readLater(wait: number): void {
    window.setTimeout(() => {
      this.reading = false;
      this.read();
    }, wait);
  }
}
