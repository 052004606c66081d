// A NATS connection over a websocket, with a credential that may only subscribe.
// It does not reconnect: after it closes, a new connection is made, perhaps to
// another address.

import type { MsgHdrs } from '@nats-io/nats-core';

import type { Bus } from '../core/source.ts';

export interface BusListener {
  alert(seq: number, value: unknown): void;
  notice(seq: number, value: unknown): void;
  closed(): void;
}

/** Resolves once the subscription is active. */
export async function openBus(bus: Bus, listener: BusListener): Promise<void> {
  // Loaded later: it is half of the script, and the first view does not need it.
  const { jwtAuthenticator, nkeyAuthenticator, wsconnect } = await import('@nats-io/nats-core');
  const seed = new TextEncoder().encode(bus.seed);
  const connection = await wsconnect({
    servers: bus.url,
    authenticator: bus.jwt === '' ? nkeyAuthenticator(seed) : jwtAuthenticator(bus.jwt, seed),
    name: 'tocsin dashboard page',
    reconnect: false, // the bus may have another address: Source decides
    timeout: 5000,
    pingInterval: 15_000,
    maxPingOut: 2,
    ignoreClusterUpdates: true,
  });
  const subscribe = (subject: string, receive: (seq: number, value: unknown) => void) => {
    connection.subscribe(subject, {
      callback: (error, message) => {
        if (error !== null) return; // not allowed: the service has the missing alerts
        // Another dashboard may direct an answer of the bus to this subject. It is
        // not a republished message.
        if (message.subject !== `live.${message.headers?.get('Nats-Subject') ?? ''}`) return;
        let value: unknown;
        try {
          value = JSON.parse(message.string());
        } catch {
          return; // not JSON, so not an alert
        }
        receive(sequence(message.headers), value);
      },
    });
  };
  subscribe('live.alerts.>', listener.alert);
  subscribe('live.notices.>', listener.notice);
  try {
    await connection.flush(); // from here on, no alert is missed
  } catch (error) {
    void connection.close();
    throw error;
  }
  void connection.closed().then(() => listener.closed());
}

/** The sequence that the server sets in a republished message, or 0. */
function sequence(headers: MsgHdrs | undefined): number {
  const seq = Number(headers?.get('Nats-Sequence'));
  return Number.isSafeInteger(seq) ? seq : 0;
}
