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
  | { readonly type: 'ask-session' }
  | { readonly type: 'open-ws'; readonly bus: Bus }
  | { readonly type: 'open-sse' }
  | { readonly type: 'close-sse' }
  /** Read the alerts that arrived while nothing was open. */
  | { readonly type: 'resync' };

export type Way = 'websocket' | 'events' | 'none';

/** The pause after each consecutive failure, in ms. */
const WAITS = [250, 500, 1000, 2000, 4000, 5000];
/** The pause before the session is read again if the bus has no websocket, in ms. */
const ASK_AGAIN = 60_000;
/** How often the stored alerts are read, because an event stream can fail silently, in ms. */
const CHECK = 30_000;

type Link = 'idle' | 'opening' | 'open';

export class Source {
  private ws: Link = 'idle';
  private sse: Link = 'idle';
  private asking = false;
  private failures = { ws: 0, sse: 0 };
  /** When to read the session, open the event stream, and check it, in ms; 0 for never. */
  private askAt = 0;
  private sseAt = 0;
  private checkAt = 0;
  /** Since when no source is open, in ms; 0 while one is open. */
  awaySince = 0;

  /** jitter returns numbers from 0 to 1, so that not all pages reconnect at once. */
  constructor(private readonly jitter: () => number = () => 0.5) {}

  get way(): Way {
    if (this.ws === 'open') return 'websocket';
    return this.sse === 'open' ? 'events' : 'none';
  }

  /** When the next tick is due, or 0. */
  next(): number {
    const due = [this.askAt, this.sseAt, this.checkAt].filter((at) => at > 0);
    return due.length === 0 ? 0 : Math.min(...due);
  }

  on(event: Event, now: number): Effect[] {
    const effects = this.decide(event, now);
    if (this.way !== 'none') this.awaySince = 0;
    else if (this.awaySince === 0) this.awaySince = now;
    return effects;
  }

  private decide(event: Event, now: number): Effect[] {
    switch (event.type) {
      case 'start':
        return this.ask();
      case 'wake':
        if (this.way !== 'none') return [{ type: 'resync' }];
        this.failures = { ws: 0, sse: 0 };
        return [...this.ask(), ...this.openEvents()];
      case 'session':
        this.asking = false;
        if (event.bus === null) {
          this.askAt = now + ASK_AGAIN;
          return this.openEvents();
        }
        if (this.ws !== 'idle') return [];
        this.ws = 'opening';
        return [{ type: 'open-ws', bus: event.bus }];
      case 'session-failed':
        this.asking = false;
        this.askAt = now + this.wait(this.failures.ws++);
        return this.openEvents();
      case 'ws-open': {
        this.ws = 'open';
        this.failures = { ws: 0, sse: 0 };
        this.askAt = this.sseAt = this.checkAt = 0;
        const had = this.sse !== 'idle';
        this.sse = 'idle';
        return had ? [{ type: 'close-sse' }, { type: 'resync' }] : [{ type: 'resync' }];
      }
      case 'ws-closed':
        this.ws = 'idle';
        // The bus may have another address now: read the session.
        this.askAt = now + this.wait(this.failures.ws++);
        return this.openEvents();
      case 'sse-open':
        if (this.sse === 'idle') return [];
        this.sse = 'open';
        this.failures.sse = 0;
        this.checkAt = now + CHECK;
        return [{ type: 'resync' }];
      case 'sse-closed':
        if (this.sse === 'idle') return [];
        this.sse = 'idle';
        this.checkAt = 0;
        this.sseAt = now + this.wait(this.failures.sse++);
        return [];
      case 'tick':
        return this.tick(now);
    }
  }

  private tick(now: number): Effect[] {
    const effects: Effect[] = [];
    if (this.askAt > 0 && now >= this.askAt) effects.push(...this.ask());
    if (this.sseAt > 0 && now >= this.sseAt) effects.push(...this.openEvents(true));
    if (this.checkAt > 0 && now >= this.checkAt) {
      this.checkAt = now + CHECK;
      effects.push({ type: 'resync' });
    }
    return effects;
  }

  private ask(): Effect[] {
    this.askAt = 0;
    if (this.asking || this.ws !== 'idle') return [];
    this.asking = true;
    return [{ type: 'ask-session' }];
  }

  /** Opens the event stream, unless the websocket is open or a pause is running. */
  private openEvents(due = false): Effect[] {
    if (this.ws === 'open' || this.sse !== 'idle' || (this.sseAt > 0 && !due)) return [];
    this.sseAt = 0;
    this.sse = 'opening';
    return [{ type: 'open-sse' }];
  }

  private wait(failures: number): number {
    const wait = WAITS[Math.min(failures, WAITS.length - 1)] as number;
    return wait * (0.75 + this.jitter() / 2);
  }
}
