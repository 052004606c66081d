// One alert: its text, context, the events around it, and actions.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import type { Alert } from '../core/alert.ts';
import { result } from '../core/ci.ts';
import { AFTER, type AllAround, BEFORE, MAX_AROUND, readAround } from '../core/events.ts';
import { hushed, lasting, NOTHING_QUIET } from '../core/quiet.ts';
import { cut, link, oneLine, visible } from '../core/text.ts';
import { full, offset } from '../core/time.ts';
import { acknowledge, act, api, askSilence, lead, now, opened, quiet, session, store } from '../state/app.ts';
import { type Loaded, words } from '../state/loaded.ts';
import { Age, categoryName, Name, Problem, SeverityName, Shape, Tag } from './bits.tsx';

/** The maximum number of earlier alerts of the same key. */
const MAX_EARLIER = 20;

export function Drawer({ alert }: { alert: Alert }) {
  const title = useRef<HTMLHeadingElement>(null);
  const came = useRef<Element | null>(null);
  useEffect(() => {
    came.current = document.activeElement;
    const inList = came.current instanceof HTMLElement && came.current.matches('[role=row]');
    if (!inList || lead.now || covers()) title.current?.focus();
    return () => {
      const row = document.querySelector<HTMLElement>(`.rows [data-id="${CSS.escape(alert.id)}"]`) ?? came.current;
      if (document.activeElement === document.body && row instanceof HTMLElement) row.focus();
    };
  }, []);
  const held = store();
  const ending = held.ending(alert);
  const revision = held.revision(alert);
  const why = hushed(quiet.now.value.value ?? NOTHING_QUIET, alert, now.value);
  const url = link(alert.url);
  return (
    <aside class="drawer" aria-label="Alert">
      <div class="drawer-head">
        <SeverityName of={alert.severity} />
        <span class="muted">{categoryName(alert.category)}</span>
        <span class="muted">
          <Age time={alert.time} />
        </span>
        <button
          type="button"
          class="quiet-button icon close"
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
          {ending !== undefined && (
            <Tag kind="good">
              resolved <Age time={ending.time} /> ago
            </Tag>
          )}
          {why !== undefined && 'silence' in why && (
            <Tag>silenced{why.silence.reason === '' ? '' : `: ${why.silence.reason}`}</Tag>
          )}
          {why !== undefined && 'ack' in why && <Tag>acknowledged by {why.ack.by}</Tag>}
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
        <Actions alert={alert} />
        <dl class="facts">
          <Fact name="Time">
            {full(alert.time)} <span class="muted">.{String(alert.time % 1000).padStart(3, '0')}</span>
          </Fact>
          <Fact name="App">
            <Name of={alert.app} />
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
              <Name of={alert.key} />
            </span>
          </Fact>
          <Fact name="Id">
            <span class="code">
              <Name of={alert.id} />
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
  const q = quiet.now.value.value ?? NOTHING_QUIET;
  const acked = lasting(q.acks, now.value).find((k) => k.alert === alert.id);
  const missing = session.value !== undefined && !session.value.desk;
  return (
    <div class="actions">
      {acked === undefined ? (
        <button type="button" disabled={missing} title="Acknowledge (a)" onClick={() => void acknowledge(alert)}>
          Acknowledge
        </button>
      ) : (
        <button
          type="button"
          onClick={() =>
            void act('Unacknowledged.', async () => {
              await api.change('DELETE', `api/acks/${encodeURIComponent(alert.id)}`);
              await quiet.refresh();
            })
          }
        >
          Unacknowledge
        </button>
      )}
      <button type="button" disabled={missing} title="Silence (s)" onClick={() => askSilence(alert)}>
        Silence…
      </button>
      <button
        type="button"
        class="quiet-button"
        onClick={() => void act('Copied.', () => navigator.clipboard.writeText(asJSON(alert)))}
      >
        Copy JSON
      </button>
      {missing && <p class="muted">{session.value?.deskReason}</p>}
    </div>
  );
}

function asJSON(alert: Alert): string {
  const { seq: _, time, key, correlation, ends, ...rest } = alert;
  return JSON.stringify(
    { ...rest, timestamp: new Date(time).toISOString(), dedup_key: key, correlation_id: correlation, ends },
    null,
    2,
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
  const [loaded, setLoaded] = useState<Loaded<AllAround>>({ value: undefined, error: '' });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let gone = false;
    const query = new URLSearchParams({
      app: alert.app,
      since: new Date(alert.time - BEFORE).toISOString(),
      until: new Date(alert.time + AFTER).toISOString(),
      limit: String(MAX_AROUND),
    });
    api
      .get(`api/events?${query}`)
      .then((v) => ({ value: readAround(v), error: '' }))
      .catch((error: unknown) => ({ value: undefined, error: words(error) }))
      .then((next) => {
        if (!gone) setLoaded(next);
      });
    return () => {
      gone = true;
    };
  }, [turn]);
  const { value, error } = loaded;
  const events = value?.events;
  return (
    <section aria-label="Events around it">
      <h3>
        Events around it{' '}
        <span class="muted">
          {BEFORE / 1000} s before, {AFTER / 1000} s after
        </span>
        <button type="button" class="link" onClick={() => setTurn(turn + 1)}>
          Refresh
        </button>
      </h3>
      <Problem of="Events" why={error || (value?.lacks ?? '')} />
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
                {e.bad && <Shape of="error" />} <bdi>{e.says}</bdi>
                {e.more !== '' && (
                  <details>
                    <summary>more</summary>
                    <pre>
                      <bdi>{e.more}</bdi>
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
  for (let i = all.length - 1; i >= 0 && others.length < MAX_EARLIER; i--) {
    const other = all[i] as Alert;
    if (other.id === alert.id) continue;
    const repeats = other.app === alert.app && other.key === alert.key && alert.key !== '';
    const belongs =
      (other.correlation !== '' && other.correlation === alert.correlation) ||
      other.ends.includes(alert.id) ||
      alert.ends.includes(other.id);
    if (repeats || belongs) others.push(other);
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
              <SeverityName of={other.severity} />
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
