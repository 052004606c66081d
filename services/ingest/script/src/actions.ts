// Actions of the user: clicks, submits, and navigation within a single-page app.

import { MAX_NAME, type Action } from './event.ts';
import { dom } from './dom.ts';
import { listen, run } from './guard.ts';
import type { Reporter } from './report.ts';
import { selector } from './selector.ts';
import { clip } from './text.ts';
import { call, wrap } from './wrap.ts';

/** Elements that a user clicks. The target of a click on a part of one, such as a button's icon, is the element. */
const CONTROLS = 'a,button,input,select,textarea,label,summary,option,[role],[onclick],[data-testid]';

export function watchActions(reporter: Reporter): void {
  const report = (type: Action['type'], element: unknown): void => {
    if (!(element instanceof Element)) return;
    reporter.report('action', () => ({ type, target: clip(selector(element, dom), MAX_NAME) || 'unknown' }));
  };
  listen(document, 'click', (e) => {
    const hit = e.composedPath()[0] ?? e.target;
    report('click', hit instanceof Element ? (hit.closest(CONTROLS) ?? hit) : undefined);
  });
  listen(document, 'submit', (e) => report('submit', e.target));
  watchNavigation(reporter);
}

function watchNavigation(reporter: Reporter): void {
  let last = location.href;
  const navigated = (replaced: boolean): void => {
    if (location.href === last) return;
    last = location.href;
    if (!replaced) reporter.report('action', () => ({ type: 'navigate', target: clip(route(location), MAX_NAME) }));
  };
  const { navigation } = window as { navigation?: EventTarget };
  if (navigation) {
    listen(navigation, 'currententrychange', (e) => navigated((e as { navigationType?: string }).navigationType === 'replace'));
    return;
  }
  listen(window, 'popstate', () => navigated(false));
  listen(window, 'hashchange', () => navigated(false));
  wrap(History.prototype, 'pushState', (original) => (_, self, args) => {
    const answer = call(original, self, args);
    run(() => navigated(false));
    return answer;
  });
}

/** The path, and the path after # for an app that keeps its routes there. The query is in the event's URL. */
function route({ pathname, hash }: Location): string {
  return pathname + (/^#!?\//.test(hash) ? hash.split('?', 1)[0] : '');
}
