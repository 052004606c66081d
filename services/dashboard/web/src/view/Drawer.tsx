// One alert: its text, context, the events around it, and actions.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { type Alert, statusName } from '../core/alert.ts';
import { result } from '../core/ci.ts';
import { AFTER, BEFORE, MAX_NEARBY, type NearbyEvents, readNearbyEvents } from '../core/nearby.ts';
import { active, NO_SUPPRESSIONS, suppressedBy } from '../core/suppression.ts';
import { cut, link, oneLine, visible } from '../core/text.ts';
import { full, offset } from '../core/time.ts';
import { acknowledge, api, focusDrawer, now, opened, openSilenceDialog, runAction, session, store, suppressions } from '../state/app.ts';
import { errorText, type Loaded } from '../state/polled.ts';
import { Age, categoryName, Name, Problem, SeverityName, Shape, Tag } from './bits.tsx';

/** The maximum number of related alerts. */
const MAX_RELATED = 20;

export function Drawer({ alert }: { alert: Alert }) {
  const title = useRef<HTMLHeadingElement>(null);
  const previousFocus = useRef<Element | null>(null);
  useEffect(() => {
    previousFocus.current = document.activeElement;
    const inList = previousFocus.current instanceof HTMLElement && previousFocus.current.matches('[role=row]');
    if (!inList || focusDrawer.value || covers()) title.current?.focus();
    return () => {
      const row = document.querySelector<HTMLElement>(`.rows [data-id="${CSS.escape(alert.id)}"]`) ?? previousFocus.current;
      if (document.activeElement === document.body && row instanceof HTMLElement) row.focus();
    };
  }, []);
  const alerts = store();
  const resolution = alerts.resolution(alert);
  const revision = alerts.revision(alert);
  const suppressor = suppressedBy(suppressions.loaded.value.value ?? NO_SUPPRESSIONS, alert, now.value);
  const url = link(alert.url);
  return (
    <aside class="drawer" aria-label="Alert">
      <div class="drawer-head">
        <SeverityName severity={alert.severity} />
        <span class="muted">{categoryName(alert.category)}</span>
        <span class="muted">
          <Age time={alert.time} />
        </span>
        <button
          type="button"
          class="plain-button icon close"
          aria-label="Close"
          title="Close (Esc)"
          onClick={() => (opened.value = '')}
        >
          ✕
        </button>
      </div>
      <div class="drawer-body">
        <h2 ref={title} tabIndex={-1}>
          <bdi>{alert.title}</bdi>
        </h2>
        <p class="marks">
          {resolution !== undefined && (
            <Tag kind="good">
              resolved <Age time={resolution.time} /> ago
            </Tag>
          )}
          {suppressor !== undefined && 'silence' in suppressor && (
            <Tag>silenced{suppressor.silence.reason === '' ? '' : `: ${suppressor.silence.reason}`}</Tag>
          )}
          {suppressor !== undefined && 'ack' in suppressor && <Tag>acknowledged by {suppressor.ack.by}</Tag>}
          {revision !== undefined && (
            <button type="button" class="link" onClick={() => (opened.value = revision.id)}>
              Replaced by a newer revision
            </button>
          )}
        </p>
        {alert.detail !== '' && (
          <p class="detail-text">
            <bdi>{alert.detail}</bdi>
          </p>
        )}
        <InvestigationResult alert={alert} />
        <Actions alert={alert} />
        <dl class="facts">
          <Fact name="Time">
            {full(alert.time)} <span class="muted">.{String(alert.time % 1000).padStart(3, '0')}</span>
          </Fact>
          <Fact name="App">
            <Name text={alert.app} />
          </Fact>
          {alert.url !== '' && (
            <Fact name="URL">
              {url === undefined ? (
                <bdi class="code">{alert.url}</bdi>
              ) : (
                <a class="code" href={url} target="_blank" rel="noreferrer noopener">
                  {alert.url}
                </a>
              )}
            </Fact>
          )}
          {alert.count > 1 && <Fact name="Count">{alert.count.toLocaleString('en')}</Fact>}
          <Fact name="Source">{alert.source}</Fact>
          <Fact name="Key">
            <span class="code">
              <Name text={alert.key} />
            </span>
          </Fact>
          <Fact name="Id">
            <span class="code">
              <Name text={alert.id} />
            </span>
          </Fact>
        </dl>
        {alert.category === 'ci' && <Failures alert={alert} />}
        <Context alert={alert} />
        <EventsAround alert={alert} />
        <Related alert={alert} />
      </div>
    </aside>
  );
}

/** Whether the drawer covers the list, as on a phone. */
function covers(): boolean {
  return matchMedia('(max-width: 1000px)').matches;
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Actions({ alert }: { alert: Alert }) {
  const { acks } = suppressions.loaded.value.value ?? NO_SUPPRESSIONS;
  const acked = active(acks, now.value).find((k) => k.alert === alert.id);
  const disabled = session.value !== undefined && !session.value.canAct;
  return (
    <div class="actions">
      {acked === undefined ? (
        <button type="button" disabled={disabled} title="Acknowledge (a)" onClick={() => void acknowledge(alert)}>
          Acknowledge
        </button>
      ) : (
        <button
          type="button"
          onClick={() =>
            void runAction('Unacknowledged.', async () => {
              await api.change('DELETE', `api/acks/${encodeURIComponent(alert.id)}`);
              await suppressions.refresh();
            })
          }
        >
          Unacknowledge
        </button>
      )}
      <button type="button" disabled={disabled} title="Silence (s)" onClick={() => openSilenceDialog(alert)}>
        Silence…
      </button>
      <button
        type="button"
        class="plain-button"
        onClick={() => void runAction('Copied.', () => navigator.clipboard.writeText(asJSON(alert)))}
      >
        Copy JSON
      </button>
      {disabled && <p class="muted">{session.value?.cannotActReason}</p>}
    </div>
  );
}

function asJSON(alert: Alert): string {
  const { seq: _, time, key, correlation, resolves, ...rest } = alert;
  return JSON.stringify(
    { ...rest, investigation: store().investigation(alert), timestamp: new Date(time).toISOString(), dedup_key: key, correlation_id: correlation, resolves },
    null,
    2,
  );
}

function InvestigationResult({ alert }: { alert: Alert }) {
  const found = store().investigation(alert);
  if (found === undefined) return null;
  const url = link(found.url);
  const text = found.summary || found.reason;
  return (
    <section aria-label="Investigation">
      <h3>
        Investigation{' '}
        <span class="muted">
          {statusName(found.status)}
          {found.confidence !== '' && `, ${found.confidence}`}
        </span>
        {url !== undefined && (
          <a href={url} target="_blank" rel="noreferrer noopener">
            Open
          </a>
        )}
      </h3>
      {text !== '' && (
        <p class="detail-text">
          <bdi>{text}</bdi>
        </p>
      )}
      {found.change !== undefined && (
        <dl class="facts">
          <Fact name="Proposal from a model, check it">
            <bdi class="code">{found.change.file}</bdi> <bdi>{found.change.description}</bdi>
          </Fact>
        </dl>
      )}
    </section>
  );
}

function Failures({ alert }: { alert: Alert }) {
  const { failures } = result(alert);
  if (failures.length === 0) return null;
  return (
    <section aria-label="Failures">
      <h3>Failures ({failures.length})</h3>
      <ul class="failures">
        {failures.map((f, i) => (
          <li key={i}>
            <bdi class="code">{f.name}</bdi>
            {f.message !== '' && <bdi class="message">{f.message}</bdi>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Context({ alert }: { alert: Alert }) {
  const entries = Object.entries(alert.context).filter(([name]) => alert.category !== 'ci' || name !== 'failures');
  if (entries.length === 0) return null;
  return (
    <section aria-label="Context">
      <h3>Context</h3>
      <dl class="facts">
        {entries.map(([name, value]) => (
          <Fact key={name} name={cut(oneLine(name), 60)}>
            <bdi class="code">
              {visible(cut(typeof value === 'string' ? value : JSON.stringify(value, null, 1), 4000))}
            </bdi>
          </Fact>
        ))}
      </dl>
    </section>
  );
}

function EventsAround({ alert }: { alert: Alert }) {
  const [loaded, setLoaded] = useState<Loaded<NearbyEvents>>({ value: undefined, error: '' });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let closed = false;
    const query = new URLSearchParams({
      app: alert.app,
      since: new Date(alert.time - BEFORE).toISOString(),
      until: new Date(alert.time + AFTER).toISOString(),
      limit: String(MAX_NEARBY),
    });
    api
      .get(`api/events?${query}`)
      .then((v) => ({ value: readNearbyEvents(v), error: '' }))
      .catch((error: unknown) => ({ value: undefined, error: errorText(error) }))
      .then((next) => {
        if (!closed) setLoaded(next);
      });
    return () => {
      closed = true;
    };
  }, [turn]);
  const { value, error } = loaded;
  const events = value?.events;
  return (
    <section aria-label="Events around this alert">
      <h3>
        Events around this alert{' '}
        <span class="muted">
          {BEFORE / 1000} s before, {AFTER / 1000} s after
        </span>
        <button type="button" class="link" onClick={() => setTurn(turn + 1)}>
          Refresh
        </button>
      </h3>
      <Problem what="Events" why={error || (value?.incomplete ?? '')} />
      {events === undefined && error === '' && <p class="muted">Loading…</p>}
      {events?.length === 0 && (
        <p class="muted">
          No events are stored for this alert. The detector keeps the newest 1,000 of each app and kind; CI results and
          forwarded alerts have none.
        </p>
      )}
      {events !== undefined && events.length > 0 && (
        <ol class="events">
          {events.map((e, i) => (
            <li key={i} class={e.bad ? 'bad' : ''}>
              <time class="offset" dateTime={new Date(e.time).toISOString()} title={full(e.time)}>
                {offset(e.time, alert.time)}
              </time>
              <span class="kind">{e.kind}</span>
              <span class="what">
                {e.bad && <Shape severity="error" />} <bdi>{e.summary}</bdi>
                {e.details !== '' && (
                  <details>
                    <summary>more</summary>
                    <pre>
                      <bdi>{e.details}</bdi>
                    </pre>
                  </details>
                )}
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function Related({ alert }: { alert: Alert }) {
  const { all } = store();
  const others: Alert[] = [];
  for (let i = all.length - 1; i >= 0 && others.length < MAX_RELATED; i--) {
    const other = all[i] as Alert;
    if (other.id === alert.id) continue;
    const sameKey = other.app === alert.app && other.key === alert.key && alert.key !== '';
    const related =
      (other.correlation !== '' && other.correlation === alert.correlation) ||
      other.resolves.includes(alert.id) ||
      alert.resolves.includes(other.id);
    if (sameKey || related) others.push(other);
  }
  if (others.length === 0) return null;
  return (
    <section aria-label="Related alerts">
      <h3>
        Related alerts <span class="muted">same key, same cause, or its resolution</span>
      </h3>
      <ul class="related">
        {others.map((other) => (
          <li key={other.id}>
            <button type="button" class="link" onClick={() => (opened.value = other.id)}>
              <SeverityName severity={other.severity} />
              <span class="offset">{offset(other.time, alert.time)}</span>
              <bdi class="title">{other.title}</bdi>
              {other.count > 1 && <span class="number">{`\u00d7${other.count}`}</span>}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
