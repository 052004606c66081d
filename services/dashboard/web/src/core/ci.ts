// CI results by ref, from alerts of the category ci: the newest of each pipeline,
// and earlier ones.

import type { Alert } from './alert.ts';
import { line, number, objects } from './read.ts';
import type { Store } from './store.ts';
import { link } from './text.ts';

/** The maximum number of earlier results of a pipeline. */
export const MAX_PREVIOUS = 10;

export interface Failure {
  readonly name: string;
  readonly message: string;
}

export interface Result {
  readonly alert: Alert;
  /** success, failure or error. */
  readonly status: string;
  readonly ref: string;
  readonly commit: string;
  readonly name: string;
  readonly source: string;
  /** In ms; 0 if unknown. */
  readonly duration: number;
  readonly failures: readonly Failure[];
  /** The URL of the run, or undefined. */
  readonly link: string | undefined;
}

export interface Pipeline {
  readonly name: string;
  readonly source: string;
  readonly latest: Result;
  /** Newest first, at most MAX_PREVIOUS. */
  readonly previous: readonly Result[];
}

export interface Ref {
  readonly ref: string;
  /** The number of pipelines whose latest result is not a success. */
  readonly failed: number;
  /** Ordered by name. */
  readonly pipelines: readonly Pipeline[];
  /** When the newest result came, in ms. */
  readonly time: number;
}

export function result(alert: Alert): Result {
  const c = alert.context;
  return {
    alert,
    status: line(c.status, 20),
    ref: line(c.ref, 200),
    commit: line(c.commit, 200),
    name: line(c.name, 200),
    source: line(c.source, 50),
    duration: number(c.duration_ms),
    failures: objects(c.failures).map((f) => ({ name: line(f.name), message: line(f.message, 2000) })),
    link: link(alert.url),
  };
}

/** The refs, ordered by their newest result, newest first. */
export function refs(store: Store): Ref[] {
  const byRef = new Map<string, Map<string, Result[]>>();
  const all = store.all;
  for (let i = all.length - 1; i >= 0; i--) {
    const alert = all[i] as Alert;
    if (alert.category !== 'ci') continue;
    const current = result(alert);
    // After a merge, a result of the same commit on another ref revises this one,
    // which is still the latest of its own ref.
    const revision = store.revision(alert);
    if (revision !== undefined && result(revision).ref === current.ref) continue;
    let pipelines = byRef.get(current.ref);
    if (pipelines === undefined) {
      pipelines = new Map();
      byRef.set(current.ref, pipelines);
    }
    const name = `${current.source}\n${current.name}`;
    const results = pipelines.get(name);
    if (results === undefined) pipelines.set(name, [current]);
    else if (results.length <= MAX_PREVIOUS) results.push(current);
  }
  return [...byRef].map(([ref, pipelines]) => {
    const list = [...pipelines.values()].map((results) => {
      const latest = results[0] as Result;
      return { name: latest.name, source: latest.source, latest, previous: results.slice(1) };
    });
    list.sort((a, b) => a.name.localeCompare(b.name) || a.source.localeCompare(b.source));
    return {
      ref,
      pipelines: list,
      failed: list.filter((p) => p.latest.status !== 'success').length,
      time: Math.max(...list.map((p) => p.latest.alert.time)),
    };
  });
}
