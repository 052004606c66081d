// The alerts that the page keeps: the newest 10,000 by their sequence. Older ones
// are dropped and counted.

import type { Alert, Investigation } from './alert.ts';

export const MAX_ALERTS = 10_000;

export class Store {
  private alerts: Alert[] = []; // ascending by seq
  private readonly ids = new Map<string, Alert>();
  /** The alert that replaces the alert with an id. */
  private readonly revisions = new Map<string, Alert>();
  /** The alert that resolves the alert with an id. */
  private readonly resolutions = new Map<string, Alert>();
  /** The newest alert with an investigation among an alert and its revisions, by the id of the first. */
  private readonly investigations = new Map<string, Alert>();
  /** The number of alerts that were dropped for newer ones. */
  dropped = 0;

  constructor(private readonly limit = MAX_ALERTS) {}

  get size(): number {
    return this.alerts.length;
  }

  get full(): boolean {
    return this.alerts.length >= this.limit;
  }

  /** Oldest first. */
  get all(): readonly Alert[] {
    return this.alerts;
  }

  get(id: string): Alert | undefined {
    return this.ids.get(id);
  }

  getBySeq(seq: number): Alert | undefined {
    const i = this.index(seq);
    const found = this.alerts[i];
    return found?.seq === seq ? found : undefined;
  }

  /** The alert that replaces an alert, or undefined. */
  revision(alert: Alert): Alert | undefined {
    return this.revisions.get(alert.id);
  }

  /** The alert that resolves an alert, or undefined. */
  resolution(alert: Alert): Alert | undefined {
    return this.resolutions.get(alert.id);
  }

  /** The newest investigation of an alert and its revisions, or undefined. A revision without one keeps it. */
  investigation(alert: Alert): Investigation | undefined {
    return this.investigations.get(alert.revises || alert.id)?.investigation;
  }

  /** Adds alerts in any order, each once. Returns those that are new and kept. */
  add(more: readonly Alert[]): Alert[] {
    const added: Alert[] = [];
    for (const alert of more) {
      if (this.ids.has(alert.id)) continue;
      this.ids.set(alert.id, alert);
      added.push(alert);
    }
    if (added.length === 0) return added;
    added.sort((a, b) => a.seq - b.seq);
    const inOrder = (added[0] as Alert).seq > (this.alerts.at(-1)?.seq ?? 0);
    if (inOrder) for (const alert of added) this.alerts.push(alert);
    else this.alerts = merge(this.alerts, added);
    for (const alert of added) this.link(alert);
    const over = this.alerts.length - this.limit;
    if (over <= 0) return added;
    for (const old of this.alerts.splice(0, over)) this.forget(old);
    this.dropped += over;
    return added.filter((alert) => this.ids.has(alert.id));
  }

  private link(alert: Alert): void {
    if (alert.revises !== '' && newer(alert, this.revisions.get(alert.revises))) {
      this.revisions.set(alert.revises, alert);
    }
    const first = alert.revises || alert.id;
    if (alert.investigation !== undefined && newer(alert, this.investigations.get(first))) {
      this.investigations.set(first, alert);
    }
    for (const id of alert.resolves) {
      if (newer(alert, this.resolutions.get(id))) this.resolutions.set(id, alert);
    }
  }

  private forget(old: Alert): void {
    this.ids.delete(old.id);
    if (this.revisions.get(old.revises) === old) this.revisions.delete(old.revises);
    const first = old.revises || old.id;
    if (this.investigations.get(first) === old) this.investigations.delete(first);
    for (const id of old.resolves) if (this.resolutions.get(id) === old) this.resolutions.delete(id);
  }

  /** The first index whose alert has at least this seq. */
  private index(seq: number): number {
    let low = 0;
    let high = this.alerts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.alerts[middle] as Alert).seq < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function newer(alert: Alert, than: Alert | undefined): boolean {
  return than === undefined || alert.seq > than.seq;
}

function merge(a: readonly Alert[], b: readonly Alert[]): Alert[] {
  const out: Alert[] = [];
  let i = 0;
  for (const alert of b) {
    for (let next = a[i]; next !== undefined && next.seq < alert.seq; next = a[++i]) out.push(next);
    out.push(alert);
  }
  for (; i < a.length; i++) out.push(a[i] as Alert);
  return out;
}
