// CI results by ref, from alerts of the category ci: the newest of each pipeline,
// and earlier ones.

import type { Alert } from './alert.ts';
import { line, number, objects } from './read.ts';
import type { Store } from './store.ts';
import { link } from './text.ts';

/** The maximum number of earlier results of a pipeline. */
export const MAX_BEFORE = 10;

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
  /** Newest first, at most MAX_BEFORE. */
  readonly before: readonly Result[];
}

export interface Ref {
  readonly ref: string;
  readonly broken: number;
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
  const found = new Map<string, Map<string, Result[]>>();
  const all = store.all;
  for (let i = all.length - 1; i >= 0; i--) {
    const alert = all[i] as Alert;
    if (alert.category !== 'ci') continue;
    const one = result(alert);
    // A result of the same commit on another ref, as after a merge, revises this
    // one, which still holds for its own ref.
    const revision = store.revision(alert);
    if (revision !== undefined && result(revision).ref === one.ref) continue;
    let pipelines = found.get(one.ref);
    if (pipelines === undefined) {
      pipelines = new Map();
      found.set(one.ref, pipelines);
    }
    const name = `${one.source}\n${one.name}`;
    const results = pipelines.get(name);
    if (results === undefined) pipelines.set(name, [one]);
    else if (results.length <= MAX_BEFORE) results.push(one);
  }
  return [...found].map(([ref, pipelines]) => {
    const list = [...pipelines.values()].map((results) => {
      const latest = results[0] as Result;
      return { name: latest.name, source: latest.source, latest, before: results.slice(1) };
    });
    list.sort((a, b) => a.name.localeCompare(b.name) || a.source.localeCompare(b.source));
    return {
      ref,
      pipelines: list,
      broken: list.filter((p) => p.latest.status !== 'success').length,
      time: Math.max(...list.map((p) => p.latest.alert.time)),
    };
  });
}
