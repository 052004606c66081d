import { toQuery } from '../core/filter.ts';
import { clock } from '../core/time.ts';
import { ci, filter, now, services, session, signOut, unread, VIEWS, type View, view, way } from '../state/app.ts';
import { dialog } from '../state/dialogs.ts';
import { set, settings, type Theme } from '../state/settings.ts';

export const NAMES: Record<View, string> = {
  alerts: 'Alerts',
  ci: 'CI',
  charts: 'Charts',
  quiet: 'Silences & noise',
  notices: 'Agent messages',
  services: 'Services',
};

export function Header() {
  return (
    <header class="top">
      <h1 class="brand">Tocsin</h1>
      <nav aria-label="Views">
        <ul>
          {VIEWS.map((v, i) => (
            <li key={v}>
              <Tab of={v} digit={i + 1} />
            </li>
          ))}
        </ul>
      </nav>
      <div class="top-end">
        <Live />
        <ThemeSwitch />
        <button
          type="button"
          class="quiet-button icon"
          aria-label="Help and keyboard shortcuts"
          title="Help and keyboard shortcuts (?)"
          onClick={() => (dialog.value = { type: 'help' })}
        >
          ?
        </button>
        {session.value?.signedIn && (
          <button type="button" class="quiet-button" onClick={() => void signOut()}>
            Sign out
          </button>
        )}
      </div>
    </header>
  );
}

function Tab({ of, digit }: { of: View; digit: number }) {
  const query = toQuery(filter.value);
  return (
    <a
      href={`#/${of}${query === '' ? '' : `?${query}`}`}
      aria-current={view.value === of ? 'page' : undefined}
      title={`${NAMES[of]} (${digit})`}
    >
      {NAMES[of]}
      <Badge of={of} />
    </a>
  );
}

function Badge({ of }: { of: View }) {
  if (of === 'ci') {
    const broken = ci.value.reduce((n, ref) => n + ref.broken, 0);
    return broken > 0 ? <Count n={broken} says="failed" bad /> : null;
  }
  if (of === 'notices') return unread.value > 0 ? <Count n={unread.value} says="new" /> : null;
  if (of === 'services') {
    const unhealthy = (services.now.value.value ?? []).filter((s) => !s.ok).length;
    return unhealthy > 0 ? <Count n={unhealthy} says="unhealthy" bad /> : null;
  }
  return null;
}

function Count({ n, says, bad = false }: { n: number; says: string; bad?: boolean }) {
  return (
    <span class={bad ? 'badge bad' : 'badge'}>
      {n}
      <span class="unseen"> {says}</span>
    </span>
  );
}

const WAYS = {
  websocket: { short: 'Live', long: 'Live, over the NATS websocket' },
  events: {
    short: 'Live',
    long: 'Live, over the dashboard’s event stream (the websocket is unreachable or not configured)',
  },
} as const;

function Live() {
  const { way: on, since } = way.value;
  if (on !== 'none') {
    return (
      <span class="live on" title={WAYS[on].long}>
        <span class="dot" aria-hidden="true" />
        {WAYS[on].short}
        <span class="via">{on === 'websocket' ? 'websocket' : 'event stream'}</span>
      </span>
    );
  }
  // While the page connects for the first time, it shows no failure.
  const starting = since === 0 || now.value - since < 1500;
  return (
    <span class={starting ? 'live' : 'live off'} role="status">
      <span class="dot" aria-hidden="true" />
      {starting ? 'Connecting' : 'Disconnected'}
      {!starting && <span class="via">since {clock(since)}, reconnecting…</span>}
    </span>
  );
}

const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

function ThemeSwitch() {
  const { theme } = settings.value;
  return (
    <label class="theme">
      <span class="unseen">Theme</span>
      <select value={theme} onChange={(e) => set({ theme: e.currentTarget.value as Theme })}>
        {THEMES.map((t) => (
          <option key={t} value={t}>
            {t === 'system' ? 'Auto' : t === 'light' ? 'Light' : 'Dark'}
          </option>
        ))}
      </select>
    </label>
  );
}
