import { toQuery } from '../core/filter.ts';
import { disconnectedTime } from '../core/source.ts';
import { clock } from '../core/time.ts';
import { ci, connection, filter, now, services, session, signOut, unread, type View, view, VIEWS } from '../state/app.ts';
import { dialog } from '../state/dialogs.ts';
import { set, settings, type Theme } from '../state/settings.ts';

export const NAMES: Record<View, string> = {
  alerts: 'Alerts',
  ci: 'CI',
  charts: 'Charts',
  silences: 'Silences & noise',
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
              <Tab tab={v} digit={i + 1} />
            </li>
          ))}
        </ul>
      </nav>
      <div class="top-end">
        <Live />
        <ThemeSwitch />
        <button
          type="button"
          class="plain-button icon"
          aria-label="Help and keyboard shortcuts"
          title="Help and keyboard shortcuts (?)"
          onClick={() => (dialog.value = { type: 'help' })}
        >
          ?
        </button>
        {session.value?.signedIn && (
          <button type="button" class="plain-button" onClick={() => void signOut()}>
            Sign out
          </button>
        )}
      </div>
    </header>
  );
}

function Tab({ tab, digit }: { tab: View; digit: number }) {
  const query = toQuery(filter.value);
  return (
    <a
      href={`#/${tab}${query === '' ? '' : `?${query}`}`}
      aria-current={view.value === tab ? 'page' : undefined}
      title={`${NAMES[tab]} (${digit})`}
    >
      {NAMES[tab]}
      <Badge tab={tab} />
    </a>
  );
}

function Badge({ tab }: { tab: View }) {
  if (tab === 'ci') {
    const failed = ci.value.reduce((n, ref) => n + ref.failed, 0);
    return failed > 0 ? <Count n={failed} label="failed" bad /> : null;
  }
  if (tab === 'notices') return unread.value > 0 ? <Count n={unread.value} label="new" /> : null;
  if (tab === 'services') {
    const unhealthy = (services.loaded.value.value ?? []).filter((s) => !s.ok).length;
    return unhealthy > 0 ? <Count n={unhealthy} label="unhealthy" bad /> : null;
  }
  return null;
}

function Count({ n, label, bad = false }: { n: number; label: string; bad?: boolean }) {
  return (
    <span class={bad ? 'badge bad' : 'badge'}>
      {n}
      <span class="visually-hidden"> {label}</span>
    </span>
  );
}

const TRANSPORTS = {
  websocket: { short: 'Live', long: 'Live, over the NATS websocket' },
  events: {
    short: 'Live',
    long: 'Live, over the dashboard’s event stream (the websocket is unreachable or not configured)',
  },
} as const;

function Live() {
  const { transport, since } = connection.value;
  if (transport !== 'none') {
    return (
      <span class="live on" title={TRANSPORTS[transport].long}>
        <span class="dot" aria-hidden="true" />
        {TRANSPORTS[transport].short}
        <span class="via">{transport === 'websocket' ? 'websocket' : 'event stream'}</span>
      </span>
    );
  }
  const starting = disconnectedTime(connection.value, now.value) < 1500;
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
      <span class="visually-hidden">Theme</span>
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
