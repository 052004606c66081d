// The service's event stream. It does not use the reconnect of EventSource, which
// has no growing pauses: after an error, a new stream is opened.

export interface Connection {
  close(): void;
}

export interface StreamListener {
  open(): void;
  alert(seq: number, value: unknown): void;
  /** The service dropped alerts, because this page read too slowly. */
  dropped(): void;
  closed(): void;
}

export function openStream(after: number, listener: StreamListener): Connection {
  const stream = new EventSource(after > 0 ? `events/stream?last_event_id=${after}` : 'events/stream');
  stream.onopen = () => listener.open();
  stream.onmessage = (event) => {
    try {
      listener.alert(Number(event.lastEventId), JSON.parse(event.data as string));
    } catch {
      // not JSON, so not an alert
    }
  };
  stream.addEventListener('dropped', () => listener.dropped());
  stream.onerror = () => {
    stream.close();
    listener.closed();
  };
  return { close: () => stream.close() };
}
