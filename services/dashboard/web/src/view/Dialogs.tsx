import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { CATEGORIES } from '../core/alert.ts';
import { api, runAction, suppressions } from '../state/app.ts';
import { type Dialog, dialog } from '../state/dialogs.ts';
import { KEYS } from '../state/keys.ts';
import { set, settings } from '../state/settings.ts';
import { categoryName, Name } from './bits.tsx';

export function Dialogs() {
  const open = dialog.value;
  switch (open?.type) {
    case 'help':
      return <Help />;
    case 'token':
      return <Token request={open} />;
    case 'silence':
      return <SilenceForm request={open} />;
    default:
      return null;
  }
}

function close(): void {
  const open = dialog.peek();
  if (open?.type === 'token') open.done(undefined);
  else dialog.value = undefined;
}

/** A modal dialog. The browser keeps the focus in it, and restores the focus after it. */
function Modal({ title, children }: { title: string; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const from = document.activeElement;
    element.current?.showModal();
    element.current?.querySelector<HTMLElement>('form input, form select')?.focus();
    return () => {
      if (from instanceof HTMLElement && from.isConnected) from.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby="dialog-title"
      onCancel={(e) => {
        e.preventDefault();
        close();
      }}
      onClick={(e) => {
        if (e.target === element.current) close();
      }}
    >
      <div class="dialog-box">
        <div class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <button type="button" class="plain-button icon close" aria-label="Close" onClick={close}>
            ✕
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}

function Help() {
  return (
    <Modal title="Keyboard shortcuts">
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={settings.value.keys} onChange={(e) => set({ keys: e.currentTarget.checked })} />{' '}
        Enable keyboard shortcuts
      </label>
      <h3>Search</h3>
      <p class="muted">
        All words must match, in title, detail, app, category, URL, key or context: <code>"an exact phrase"</code>,{' '}
        <code>-excluded</code>.
      </p>
      <h3>Severities</h3>
      <p class="muted">Diamond: error. Triangle: warning. Ring: info.</p>
      <p class="muted">
        Apache-2.0. <a href="licenses.txt">Licences</a> of the libraries in this page.
      </p>
    </Modal>
  );
}

function Token({ request }: { request: Extract<Dialog, { type: 'token' }> }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <Modal title="Token">
      <form
        method="dialog"
        onSubmit={(e) => {
          e.preventDefault();
          request.done(input.current?.value.trim() || undefined);
        }}
      >
        <p>
          {request.wrong ? 'The token is not valid. ' : ''}Changes need the token that tocsin was started with (
          <code>TOCSIN_TOKEN</code>). The sign-in lasts 12 hours.
        </p>
        <label class="field">
          Token
          <input ref={input} type="password" required autocomplete="current-password" />
        </label>
        <div class="dialog-actions">
          <button type="button" class="plain-button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Sign in
          </button>
        </div>
      </form>
    </Modal>
  );
}

type Scope = 'key' | 'category' | 'app' | 'app-category';
const MINUTES: readonly (readonly [minutes: number, name: string])[] = [
  [15, '15 min'],
  [30, '30 min'],
  [60, '1 h'],
  [240, '4 h'],
  [1440, '24 h'],
];

function SilenceForm({ request }: { request: Extract<Dialog, { type: 'silence' }> }) {
  const { about } = request;
  const [scope, setScope] = useState<Scope>(about?.key === '' ? 'app' : 'key');
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const field = (name: string) => String(data.get(name) ?? '').trim();
    const what: Record<string, unknown> = { minutes: Number(field('minutes')) };
    if (field('reason') !== '') what.reason = field('reason');
    if (about === undefined) {
      for (const name of ['app', 'category', 'dedup_key']) if (field(name) !== '') what[name] = field(name);
    } else {
      // The original text, not the cleaned one.
      if (scope === 'key') what.dedup_key = about.key;
      if (scope !== 'category') what.app = about.app;
      if (scope === 'category' || scope === 'app-category') what.category = about.category;
    }
    setBusy(true);
    const done = await runAction('Silenced: agents do not receive matching alerts.', async () => {
      await api.change('POST', 'api/silences', what);
      await suppressions.refresh();
    });
    setBusy(false);
    if (done && dialog.peek() === request) close();
  };
  return (
    <Modal title="Silence alerts">
      <form onSubmit={(e) => void submit(e)}>
        {about === undefined ? (
          <fieldset>
            <legend>Alerts to silence (all fields that are set must match)</legend>
            <label class="field">
              App
              <input name="app" maxLength={256} autocomplete="off" spellcheck={false} />
            </label>
            <label class="field">
              Category
              <select name="category">
                <option value="">any</option>
                {CATEGORIES.map((c) => (
                  <option key={c} value={c}>
                    {categoryName(c)}
                  </option>
                ))}
              </select>
            </label>
            <label class="field">
              Key
              <input name="dedup_key" maxLength={1024} autocomplete="off" spellcheck={false} />
            </label>
          </fieldset>
        ) : (
          <fieldset>
            <legend>Alerts to silence</legend>
            <label class="check">
              <input type="radio" name="scope" checked={scope === 'key'} disabled={about.key === ''} onChange={() => setScope('key')} />
              <span>
                Only this alert{' '}
                <span class="code muted">
                  <Name text={about.key} />
                </span>
              </span>
            </label>
            <label class="check">
              <input
                type="radio"
                name="scope"
                checked={scope === 'app-category'}
                onChange={() => setScope('app-category')}
              />
              <span>
                All {categoryName(about.category)} in <Name text={about.app} />
              </span>
            </label>
            <label class="check">
              <input type="radio" name="scope" checked={scope === 'app'} onChange={() => setScope('app')} />
              <span>
                Everything in <Name text={about.app} />
              </span>
            </label>
            <label class="check">
              <input type="radio" name="scope" checked={scope === 'category'} onChange={() => setScope('category')} />
              <span>All {categoryName(about.category)} in every app</span>
            </label>
          </fieldset>
        )}
        <fieldset class="minutes">
          <legend>For</legend>
          {MINUTES.map(([minutes, name]) => (
            <label key={minutes} class="check">
              <input type="radio" name="minutes" value={minutes} defaultChecked={minutes === 30} /> {name}
            </label>
          ))}
        </fieldset>
        <label class="field">
          Reason
          <input name="reason" maxLength={200} placeholder="deploy" autocomplete="off" />
        </label>
        <div class="dialog-actions">
          <button type="button" class="plain-button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy}>
            Silence
          </button>
        </div>
      </form>
    </Modal>
  );
}
