// The state of the page that its views show.

import { batch, computed, effect, signal } from '@preact/signals';

import type { Alert } from '../core/alert.ts';
import { Announcer } from '../core/announce.ts';
import { refs } from '../core/ci.ts';
import { EVERYTHING, type Filter, fromQuery, toQuery } from '../core/filter.ts';
import { readApps, readServices } from '../core/health.ts';
import { readRules } from '../core/noise.ts';
import { type Notice, readNotice, withNotices } from '../core/notices.ts';
import { list, object } from '../core/read.ts';
import { type Row, rows as rowsOf, tally } from '../core/rows.ts';
import type { Connection } from '../core/source.ts';
import type { Store } from '../core/store.ts';
import { NO_SUPPRESSIONS, readAcks, readSilences, type Suppressions } from '../core/suppression.ts';
import { readPages } from '../core/vitals.ts';
import { Api, RequestError, readSession, type Session } from '../live/api.ts';
import { Engine } from '../live/engine.ts';
import { askToken, dialog } from './dialogs.ts';
import { errorText, Polled } from './polled.ts';
import { settings } from './settings.ts';

export const VIEWS = ['alerts', 'ci', 'charts', 'silences', 'notices', 'services'] as const;
export type View = (typeof VIEWS)[number];

/** The minimum interval of redraws while alerts arrive, in ms. */
const REDRAW = 120;

/** Whether reading needs a sign-in. */
export const locked = signal(false);

export const api = new Api(askToken, {
  locked() {
    locked.value = true;
  },
  signedIn() {
    const known = session.peek();
    if (known !== undefined) session.value = { ...known, signedIn: true };
  },
});

/** The current time, updated each second. */
export const now = signal(Date.now());
export const view = signal<View>('alerts');
export const filter = signal<Filter>(EVERYTHING);
/** The id of the alert whose drawer is open, or empty. */
export const opened = signal('');
export const session = signal<Session | undefined>(undefined);
export const connection = signal<Connection>({ transport: 'none', since: 0 });
/** Counts the changes of the store, so that views which read it are redrawn. */
export const storeVersion = signal(0);
/** Whether the newest alerts were read at least once. */
export const ready = signal(false);
/** The announcement for screen readers. */
export const announcement = signal('');
/** A short message about the last action of the person. */
export const toast = signal<{ text: string; bad: boolean } | undefined>(undefined);
/** Whether the stream was recreated since the page opened. */
export const recreated = signal(false);
/** Whether the service now has another version than this page. */
export const outdated = signal(false);

export const suppressions = new Polled<Suppressions>(
  api,
  'api/silences',
  (v) => ({ silences: readSilences(object(v).silences), acks: readAcks(object(v).acks) }),
  15_000,
);
export const noise = new Polled(api, 'api/noise', readRules, 15_000);
export const services = new Polled(api, 'api/health', readServices, 5000);
export const apps = new Polled(api, 'api/status', readApps, 10_000);
export const vitals = new Polled(api, 'api/vitals', readPages, 10_000);

export const notices = signal<readonly Notice[]>([]);
const storedNotices = new Polled(
  api,
  'api/notices?limit=200',
  (v) => list(object(v).notices).flatMap((n) => readNotice(n) ?? []),
  30_000,
);
export const noticesError = computed(() => storedNotices.loaded.value.error);
/** The number of unread notices. */
export const unread = signal(0);

const announcer = new Announcer();
let redraw = 0;

const engine = new Engine(api, {
  alerts(added) {
    announcer.add(added);
    if (redraw !== 0) return;
    redraw = window.setTimeout(
      () => {
        redraw = 0;
        batch(() => {
          storeVersion.value++;
          if (!ready.value) ready.value = true;
        });
      },
      ready.peek() ? REDRAW : 0,
    );
  },
  notice(notice) {
    if (view.peek() !== 'notices') unread.value++;
    notices.value = withNotices(notices.peek(), [notice]);
  },
  session(found) {
    const previous = session.peek()?.version;
    if (previous !== undefined && previous !== found.version) outdated.value = true;
    session.value = found;
  },
  connection() {
    connection.value = { transport: engine.source.transport, since: engine.source.disconnectedSince };
    if (engine.source.transport !== 'none') {
      void suppressions.refresh();
      void storedNotices.refresh();
    }
  },
  recreated() {
    recreated.value = true;
    pausedList.value = undefined;
    opened.value = '';
  },
});

/** The alerts of the page. A view that reads them is redrawn when they change. */
export function store(): Store {
  storeVersion.value;
  return engine.history.store;
}

/** The list as it was when the person paused it, or undefined. */
export const pausedList = signal<{ readonly rows: readonly Row[]; readonly newest: number } | undefined>(undefined);
export const paused = computed(() => pausedList.value !== undefined);

const group = computed(() => settings.value.group);
const live = computed(() =>
  rowsOf(store(), {
    filter: filter.value,
    group: group.value,
    suppressions: suppressions.loaded.value.value ?? NO_SUPPRESSIONS,
    now: Date.now(),
  }),
);
export const rows = computed(() => pausedList.value?.rows ?? live.value);
/** The number of alerts that arrived while the list is paused. */
export const waiting = computed(() => {
  const { all } = store();
  const from = pausedList.value?.newest;
  return from === undefined ? 0 : all.filter((a) => a.seq > from).length;
});
export const counts = computed(() => tally(store()));
export const loading = computed(() => {
  storeVersion.value;
  return engine.history.loading;
});
export const ci = computed(() => refs(store()));

export function pause(on: boolean): void {
  pausedList.value = on ? { rows: live.peek(), newest: engine.history.last } : undefined;
}

/** Changes the filter, and resumes a paused list. */
export function changeFilter(change: Partial<Filter>): void {
  batch(() => {
    pausedList.value = undefined;
    filter.value = { ...filter.peek(), ...change };
  });
}

/** Whether the drawer takes the focus when it opens: after a key, not after a click. */
export const focusDrawer = { value: false };

export function open(id: string, moveFocus: boolean): void {
  focusDrawer.value = moveFocus;
  opened.value = id;
}

export function find(id: string): Alert | undefined {
  return engine.history.store.get(id);
}

export function go(to: View): void {
  if (to !== view.peek()) location.hash = address(to, filter.peek());
}

function address(to: View, wanted: Filter): string {
  const query = toQuery(wanted);
  return `#/${to}${query === '' ? '' : `?${query}`}`;
}

function followAddress(): void {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const name = path === 'quiet' ? 'silences' : path; // quiet: the view's name in old bookmarks
  const to = VIEWS.find((v) => v === name) ?? 'alerts';
  batch(() => {
    view.value = to;
    if (toQuery(filter.peek()) !== query) filter.value = fromQuery(query);
  });
}

let toastTimer = 0;

/** Runs an action of the person, and shows its result. */
export async function runAction(success: string, action: () => Promise<void>): Promise<boolean> {
  let text = success;
  let bad = false;
  try {
    await action();
  } catch (error) {
    text = errorText(error);
    bad = true;
  }
  if (text !== '') {
    toast.value = { text, bad };
    clearTimeout(toastTimer);
    toastTimer = window.setTimeout(
      () => {
        toast.value = undefined;
      },
      bad ? 12_000 : 5000,
    );
  }
  return !bad;
}

export function acknowledge(alert: Alert): Promise<boolean> {
  return runAction('Acknowledged. Repeats are suppressed until it escalates or resolves, 24 h at most.', async () => {
    await api.change('POST', 'api/acks', { alert_id: alert.id });
    await suppressions.refresh();
  });
}

export function openSilenceDialog(about: Alert | undefined): void {
  dialog.value = { type: 'silence', about };
}

export function start(): void {
  followAddress();
  addEventListener('hashchange', followAddress);
  effect(() => {
    const wanted = address(view.value, filter.value);
    if (location.hash !== wanted && !(location.hash === '' && wanted === '#/alerts'))
      history.replaceState(null, '', wanted);
  });
  effect(() => {
    if (view.value === 'notices') unread.value = 0;
  });
  window.setInterval(() => {
    now.value = Date.now();
    const text = announcer.take(now.value);
    if (text !== '') announcement.value = text;
  }, 1000);
  void readData();
}

/** Starts reading, unless a sign-in is required: the page is reloaded after it. */
async function readData(): Promise<void> {
  try {
    session.value = await readSession(api);
  } catch (error) {
    if (error instanceof RequestError && error.status === 401) return;
  }
  engine.start();
  suppressions.watch();
  services.watch();
  effect(() => {
    const stored = storedNotices.loaded.value.value;
    if (stored !== undefined) notices.value = withNotices(notices.peek(), stored);
  });
  storedNotices.watch();
}

/** Ends the sign-in, and reloads the page without it. */
export async function signOut(): Promise<void> {
  if (await runAction('', () => api.signOut())) location.reload();
}
