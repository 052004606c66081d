import { useEffect } from 'preact/hooks';

import { announcement, locked, opened, outdated, recreated, store, toast, type View, view } from '../state/app.ts';
import { Alerts } from './Alerts.tsx';
import { Charts } from './Charts.tsx';
import { CI } from './CI.tsx';
import { Dialogs } from './Dialogs.tsx';
import { Drawer } from './Drawer.tsx';
import { Header, NAMES } from './Header.tsx';
import { Notices } from './Notices.tsx';
import { Services } from './Services.tsx';
import { SignIn } from './SignIn.tsx';
import { Silences } from './Silences.tsx';

const VIEW_OF: Record<View, () => preact.JSX.Element> = {
  alerts: Alerts,
  ci: CI,
  charts: Charts,
  silences: Silences,
  notices: Notices,
  services: Services,
};

export function App() {
  const Shown = VIEW_OF[view.value];
  const alert = opened.value === '' ? undefined : store().get(opened.value);
  useEffect(() => {
    document.title = locked.value ? 'Sign in · Tocsin' : `${NAMES[view.value]} · Tocsin`;
  }, [view.value, locked.value]);
  if (locked.value) return <SignIn />;
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        Skip to content
      </button>
      <Header />
      {outdated.value && (
        <p class="banner" role="status">
          The dashboard now runs another version than this page.
          <button type="button" class="link" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )}
      {recreated.value && (
        <p class="banner" role="status">
          The bus was restarted with a new store. Its earlier alerts are gone, and this page no longer shows them.
          <button type="button" class="plain-button" onClick={() => (recreated.value = false)}>
            Dismiss
          </button>
        </p>
      )}
      <div class={alert === undefined ? 'body' : 'body with-drawer'}>
        <main id="main" tabIndex={-1} aria-label={NAMES[view.value]} data-view={view.value}>
          <Shown key={view.value} />
        </main>
        {alert !== undefined && <Drawer key={alert.id} alert={alert} />}
      </div>
      <Dialogs />
      <p class="visually-hidden" role="status" aria-live="polite">
        {announcement.value}
      </p>
      <div class="toasts" role="status" aria-live="polite">
        {toast.value !== undefined && <p class={toast.value.bad ? 'toast bad' : 'toast'}>{toast.value.text}</p>}
      </div>
    </>
  );
}

/** A button and not a link, because the address has the view. */
function skip(): void {
  document.getElementById('main')?.focus();
}
