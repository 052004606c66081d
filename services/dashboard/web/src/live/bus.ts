// The bus itself: a NATS connection over a websocket, with a credential that may
// subscribe and nothing else. It is used once: when it is closed another is made,
// perhaps to another address.

import type { MsgHdrs } from '@nats-io/nats-core';

import type { Bus } from '../core/source.ts';

export interface Heard {
  alert(seq: number, value: unknown): void;
  notice(seq: number, value: unknown): void;
  closed(): void;
}

/** Resolves once everything that is published is heard. */
export async function openBus(bus: Bus, heard: Heard): Promise<void> {
  // Half of the script, and not needed for the first look.
  const { jwtAuthenticator, nkeyAuthenticator, wsconnect } = await import('@nats-io/nats-core');
  const seed = new TextEncoder().encode(bus.seed);
  const connection = await wsconnect({
    servers: bus.url,
    authenticator: bus.jwt === '' ? nkeyAuthenticator(seed) : jwtAuthenticator(bus.jwt, seed),
    name: 'tocsin dashboard page',
    reconnect: false, // the bus may be back elsewhere: Source decides
    timeout: 5000,
    pingInterval: 15_000,
    maxPingOut: 2,
    ignoreClusterUpdates: true,
  });
  const listen = (subject: string, hear: (seq: number, value: unknown) => void) => {
    connection.subscribe(subject, {
      callback: (error, message) => {
        if (error !== null) return; // not allowed: what is missing is read from the service
        // Another dashboard may have an answer of the bus sent here, which is not
        // published where it was stored.
        if (message.subject !== `live.${message.headers?.get('Nats-Subject') ?? ''}`) return;
        let value: unknown;
        try {
          value = JSON.parse(message.string());
        } catch {
          return; // no JSON, so no alert of ours
        }
        hear(sequence(message.headers), value);
      },
    });
  };
  listen('live.alerts.>', heard.alert);
  listen('live.notices.>', heard.notice);
  try {
    await connection.flush(); // from here on nothing is missed
  } catch (error) {
    void connection.close();
    throw error;
  }
  void connection.closed().then(() => heard.closed());
}

/** The place in the stream, as the server says it of what it republishes; 0 without. */
function sequence(headers: MsgHdrs | undefined): number {
  const seq = Number(headers?.get('Nats-Sequence'));
  return Number.isSafeInteger(seq) ? seq : 0;
}
