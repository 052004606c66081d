// Actions of the user: clicks, submits, and navigation within a single-page app.

import { MAX_NAME, type Action } from './event.ts';
import { dom } from './dom.ts';
import { listen, run } from './guard.ts';
import type { Reporter } from './report.ts';
import { selector } from './selector.ts';
import { clip } from './text.ts';
import { call, wrap } from './wrap.ts';

/** The element that a click is meant for when it hits a part of it, such as the icon of a button. */
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
  const moved = (replaced: boolean): void => {
    if (location.href === last) return;
    last = location.href;
    if (!replaced) reporter.report('action', () => ({ type: 'navigate', target: clip(route(location), MAX_NAME) }));
  };
  const { navigation } = window as { navigation?: EventTarget };
  if (navigation) {
    listen(navigation, 'currententrychange', (e) => moved((e as { navigationType?: string }).navigationType === 'replace'));
    return;
  }
  listen(window, 'popstate', () => moved(false));
  listen(window, 'hashchange', () => moved(false));
  wrap(History.prototype, 'pushState', (original) => (_, self, args) => {
    const answer = call(original, self, args);
    run(() => moved(false));
    return answer;
  });
}

/** The path, plus the path behind # where an app keeps it there. No queries: the event's URL has them. */
function route({ pathname, hash }: Location): string {
  return pathname + (/^#!?\//.test(hash) ? hash.split('?', 1)[0] : '');
}
