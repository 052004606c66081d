// The HTTP API of the dashboard service.

import { readAlert } from '../core/alert.ts';
import type { Page, Request } from '../core/history.ts';
import { list, number, object, token } from '../core/read.ts';
import type { Bus } from '../core/source.ts';

/** The timeout of a request, in ms. */
const TIMEOUT = 15_000;
const SIGN_IN = 'api/sign-in';

/** A failed request, with a message for people. status is 0 if there was no answer. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Asks the person for the token; undefined if they cancel. */
export type AskToken = (wrong: boolean) => Promise<string | undefined>;

/** Receives changes of the sign-in, whose proof is a cookie that scripts can't read. */
export interface SignInListener {
  /** Reading needs a sign-in. */
  locked(): void;
  signedIn(): void;
}

export class Api {
  constructor(
    private readonly askToken: AskToken,
    private readonly listener: SignInListener,
  ) {}

  async get(path: string): Promise<unknown> {
    try {
      return await send('GET', path);
    } catch (error) {
      if (error instanceof RequestError && error.status === 401) this.listener.locked();
      throw error;
    }
  }

  /** Sends a change. If the service requires a sign-in, the person is asked for the token. */
  async change(method: 'POST' | 'DELETE', path: string, body?: unknown): Promise<unknown> {
    try {
      return await send(method, path, body);
    } catch (error) {
      if (!(error instanceof RequestError) || error.status !== 401) throw error;
    }
    for (let wrong = false; ; wrong = true) {
      const token = await this.askToken(wrong);
      if (token === undefined) throw new RequestError(401, 'nothing was changed: changes need the token of this dashboard');
      if (await this.signIn(token)) return send(method, path, body);
    }
  }

  /** Signs in for 12 hours. Returns false if the token is wrong. */
  async signIn(token: string): Promise<boolean> {
    try {
      await send('POST', SIGN_IN, { token });
    } catch (error) {
      if (error instanceof RequestError && error.status === 401) return false;
      throw error;
    }
    this.listener.signedIn();
    return true;
  }

  async signOut(): Promise<void> {
    await send('DELETE', SIGN_IN);
  }
}

async function send(method: string, path: string, body?: unknown): Promise<unknown> {
  const headers: Record<string, string> = {};
  const init: RequestInit = { method, headers, signal: AbortSignal.timeout(TIMEOUT), cache: 'no-store' };
  if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(path, init);
    text = await answer.text();
  } catch {
    throw new RequestError(0, 'the dashboard does not answer: check that tocsin is running');
  }
  let value: unknown;
  try {
    value = text === '' ? {} : JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (!answer.ok) {
    const why = token(object(value).error);
    throw new RequestError(answer.status, why !== '' ? why : `the dashboard answered ${answer.status}`);
  }
  if (value === undefined) throw new RequestError(answer.status, 'the answer of the dashboard is not JSON');
  return value;
}

export interface Session {
  readonly version: string;
  readonly bus: Bus | null;
  /** Whether actions are possible, and why not. */
  readonly canAct: boolean;
  readonly cannotActReason: string;
  /** Whether this browser is signed in. */
  readonly signedIn: boolean;
}

/** Reads how this browser may use the service. */
export async function readSession(api: Api): Promise<Session> {
  const v = object(await api.get('api/session'));
  const bus = object(v.bus);
  const known = token(bus.url) !== '' && token(bus.seed) !== '';
  return {
    version: token(v.version),
    bus: known ? { url: token(bus.url), seed: token(bus.seed), jwt: token(bus.jwt) } : null,
    canAct: v.desk === true,
    cannotActReason: token(v.desk_reason),
    signedIn: v.signed_in === true,
  };
}

/** Reads stored alerts. */
export async function readAlerts(api: Api, request: Request): Promise<Page> {
  const query = new URLSearchParams({ limit: String(request.limit) });
  if (request.before !== undefined) query.set('before', String(request.before));
  const v = object(await api.get(`api/alerts?${query}`));
  const entries = list(v.alerts).map(object);
  return {
    alerts: entries.flatMap((e) => readAlert(number(e.seq), e.alert) ?? []),
    count: entries.length,
    lowest: entries.reduce((low, e) => Math.min(low, number(e.seq)), Number.POSITIVE_INFINITY),
    first: number(v.first),
    last: number(v.last),
  };
}
