// The service's event stream. Like the bus it is used once: a browser's own way
// of coming back knows no growing pauses.

export interface Connection {
  close(): void;
}

export interface StreamHeard {
  open(): void;
  alert(seq: number, value: unknown): void;
  /** The service left alerts out, because this page read too slowly. */
  dropped(): void;
  closed(): void;
}

export function openStream(after: number, heard: StreamHeard): Connection {
  const stream = new EventSource(after > 0 ? `events/stream?last_event_id=${after}` : 'events/stream');
  stream.onopen = () => heard.open();
  stream.onmessage = (event) => {
    try {
      heard.alert(Number(event.lastEventId), JSON.parse(event.data as string));
    } catch {
      // no JSON, so no alert of ours
    }
  };
  stream.addEventListener('dropped', () => heard.dropped());
  stream.onerror = () => {
    stream.close();
    heard.closed();
  };
  return { close: () => stream.close() };
}
