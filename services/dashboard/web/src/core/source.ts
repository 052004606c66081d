// Chooses the source of live alerts: the NATS websocket if the bus offers one, and
// the service's event stream while the websocket is closed.
//
// It decides what to open, close and request, and when to retry. It has no socket
// and no clock: Engine passes it events and carries out its effects.

export interface Bus {
  readonly url: string;
  readonly seed: string;
  /** For a bus that authenticates users by a JWT; else empty. */
  readonly jwt: string;
}

export type Event =
  | { readonly type: 'start' }
  | { readonly type: 'session'; readonly bus: Bus | null }
  | { readonly type: 'session-failed' }
  | { readonly type: 'ws-open' }
  | { readonly type: 'ws-closed' }
  | { readonly type: 'sse-open' }
  | { readonly type: 'sse-closed' }
  /** The time of next() is reached. */
  | { readonly type: 'tick' }
  /** Connect now: the tab is visible again, or the network was restored. */
  | { readonly type: 'wake' };

export type Effect =
  | { readonly type: 'read-session' }
  | { readonly type: 'open-ws'; readonly bus: Bus }
  | { readonly type: 'open-sse' }
  | { readonly type: 'close-sse' }
  /** Read the alerts that arrived while nothing was open. */
  | { readonly type: 'resync' };

export type Transport = 'websocket' | 'events' | 'none';

/** The source of live alerts, and since when there is none, in ms. */
export interface Connection {
  readonly transport: Transport;
  /** 0 while a source is open, or the first one is being opened. */
  readonly since: number;
}

/** How long there has been no source, in ms; 0 before the first attempt has failed. */
export function disconnectedTime({ transport, since }: Connection, now: number): number {
  return transport !== 'none' || since === 0 ? 0 : Math.max(0, now - since);
}

/** The pause after each consecutive failure, in ms. */
const RETRY_PAUSES = [250, 500, 1000, 2000, 4000, 5000];
/** The pause before the session is read again if the bus has no websocket, in ms. */
const SESSION_INTERVAL = 60_000;
/** How often the stored alerts are read, because an event stream can fail silently, in ms. */
const CHECK_INTERVAL = 30_000;

type State = 'idle' | 'opening' | 'open';

export class Source {
  private ws: State = 'idle';
  private sse: State = 'idle';
  private readingSession = false;
  private failures = { ws: 0, sse: 0 };
  /** When to read the session, open the event stream, and check it, in ms; 0 for never. */
  private sessionAt = 0;
  private sseAt = 0;
  private checkAt = 0;
  /** When the last source was closed, in ms; 0 while one is open. */
  disconnectedSince = 0;

  /** jitter returns numbers from 0 to 1, so that not all pages reconnect at once. */
  constructor(private readonly jitter: () => number = () => 0.5) {}

  get transport(): Transport {
    if (this.ws === 'open') return 'websocket';
    return this.sse === 'open' ? 'events' : 'none';
  }

  /** When the next tick is due, or 0. */
  next(): number {
    const due = [this.sessionAt, this.sseAt, this.checkAt].filter((at) => at > 0);
    return due.length === 0 ? 0 : Math.min(...due);
  }

  on(event: Event, now: number): Effect[] {
    const effects = this.decide(event, now);
    if (this.transport !== 'none') this.disconnectedSince = 0;
    else if (this.disconnectedSince === 0) this.disconnectedSince = now;
    return effects;
  }

  private decide(event: Event, now: number): Effect[] {
    switch (event.type) {
      case 'start':
        return this.readSession();
      case 'wake':
        if (this.transport !== 'none') return [{ type: 'resync' }];
        this.failures = { ws: 0, sse: 0 };
        return [...this.readSession(), ...this.openEvents()];
      case 'session':
        this.readingSession = false;
        if (event.bus === null) {
          this.sessionAt = now + SESSION_INTERVAL;
          return this.openEvents();
        }
        if (this.ws !== 'idle') return [];
        this.ws = 'opening';
        return [{ type: 'open-ws', bus: event.bus }];
      case 'session-failed':
        this.readingSession = false;
        this.sessionAt = now + this.retryPause(this.failures.ws++);
        return this.openEvents();
      case 'ws-open': {
        this.ws = 'open';
        this.failures = { ws: 0, sse: 0 };
        this.sessionAt = this.sseAt = this.checkAt = 0;
        const wasOpen = this.sse !== 'idle';
        this.sse = 'idle';
        return wasOpen ? [{ type: 'close-sse' }, { type: 'resync' }] : [{ type: 'resync' }];
      }
      case 'ws-closed':
        this.ws = 'idle';
        // The bus may have another address now: read the session.
        this.sessionAt = now + this.retryPause(this.failures.ws++);
        return this.openEvents();
      case 'sse-open':
        if (this.sse === 'idle') return [];
        this.sse = 'open';
        this.failures.sse = 0;
        this.checkAt = now + CHECK_INTERVAL;
        return [{ type: 'resync' }];
      case 'sse-closed':
        if (this.sse === 'idle') return [];
        this.sse = 'idle';
        this.checkAt = 0;
        this.sseAt = now + this.retryPause(this.failures.sse++);
        return [];
      case 'tick':
        return this.tick(now);
    }
  }

  private tick(now: number): Effect[] {
    const effects: Effect[] = [];
    if (this.sessionAt > 0 && now >= this.sessionAt) effects.push(...this.readSession());
    if (this.sseAt > 0 && now >= this.sseAt) effects.push(...this.openEvents(true));
    if (this.checkAt > 0 && now >= this.checkAt) {
      this.checkAt = now + CHECK_INTERVAL;
      effects.push({ type: 'resync' });
    }
    return effects;
  }

  private readSession(): Effect[] {
    this.sessionAt = 0;
    if (this.readingSession || this.ws !== 'idle') return [];
    this.readingSession = true;
    return [{ type: 'read-session' }];
  }

  /** Opens the event stream, unless the websocket is open or a pause is running. */
  private openEvents(due = false): Effect[] {
    if (this.ws === 'open' || this.sse !== 'idle' || (this.sseAt > 0 && !due)) return [];
    this.sseAt = 0;
    this.sse = 'opening';
    return [{ type: 'open-sse' }];
  }

  private retryPause(failures: number): number {
    const pause = RETRY_PAUSES[Math.min(failures, RETRY_PAUSES.length - 1)] as number;
    return pause * (0.75 + this.jitter() / 2);
  }
}
