// The service's own HTTP API.

import { readAlert } from '../core/alert.ts';
import type { Page, Request } from '../core/history.ts';
import { list, number, object, token } from '../core/read.ts';
import type { Bus } from '../core/source.ts';

/** How long an answer may take, in ms. */
const PATIENCE = 15_000;
const TOKEN = 'tocsin-token';

/** An answer that says no, in words for people. status is 0 where there was none. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Asks a person for the token; undefined when they would not say. */
export type AskToken = (wrong: boolean) => Promise<string | undefined>;

export class Api {
  constructor(private readonly askToken: AskToken) {}

  get(path: string): Promise<unknown> {
    return send('GET', path);
  }

  /** Changes something. Where the service wants the token a person is asked for it. */
  async change(method: 'POST' | 'DELETE', path: string, body?: unknown): Promise<unknown> {
    for (let tries = 0; ; tries++) {
      try {
        return await send(method, path, body);
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 401) throw error;
        const given = await this.askToken(tries > 0 || sessionStorage.getItem(TOKEN) !== null);
        if (given === undefined)
          throw new Refused(401, 'nothing was changed: this dashboard wants its token for changes');
        sessionStorage.setItem(TOKEN, given); // for this tab, until it is closed
      }
    }
  }
}

async function send(method: string, path: string, body?: unknown): Promise<unknown> {
  const headers: Record<string, string> = {};
  const secret = method === 'GET' ? null : sessionStorage.getItem(TOKEN);
  if (secret !== null) headers.Authorization = `Bearer ${secret}`;
  const init: RequestInit = { method, headers, signal: AbortSignal.timeout(PATIENCE), cache: 'no-store' };
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
    throw new Refused(0, 'the dashboard does not answer: see whether tocsin still runs');
  }
  let value: unknown;
  try {
    value = text === '' ? {} : JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (!answer.ok) {
    const why = token(object(value).error);
    throw new Refused(answer.status, why !== '' ? why : `the dashboard answered ${answer.status}`);
  }
  if (value === undefined) throw new Refused(answer.status, 'the dashboard answered something that is no JSON');
  return value;
}

export interface Session {
  readonly version: string;
  readonly bus: Bus | null;
  /** Whether the service may ask and change things; why not. */
  readonly desk: boolean;
  readonly deskReason: string;
}

export async function session(api: Api): Promise<Session> {
  const v = object(await api.get('api/session'));
  const bus = object(v.bus);
  const known = token(bus.url) !== '' && token(bus.seed) !== '';
  return {
    version: token(v.version),
    bus: known ? { url: token(bus.url), seed: token(bus.seed), jwt: token(bus.jwt) } : null,
    desk: v.desk === true,
    deskReason: token(v.desk_reason),
  };
}

/** Alerts as they are stored. */
export async function alerts(api: Api, request: Request): Promise<Page> {
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
