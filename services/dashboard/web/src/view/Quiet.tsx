// Silences, acknowledgements and noise rules.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { Severity } from '../core/alert.ts';
import { effect, type Removed, type Rule, readRules } from '../core/noise.ts';
import { type Ack, lasting, NOTHING_QUIET, type Silence } from '../core/quiet.ts';
import { oneLine } from '../core/text.ts';
import { clock, duration, full } from '../core/time.ts';
import { act, api, askSilence, find, noise, now, opened, quiet, session } from '../state/app.ts';
import { Age, categoryName, Empty, Name, Problem, Scroll, SeverityName, Tag } from './bits.tsx';

export function Quiet() {
  useEffect(() => quiet.watch(), []);
  const desk = session.value;
  return (
    <Scroll>
      {desk !== undefined && !desk.desk && <Problem of="Changes are not possible here" why={desk.deskReason} />}
      <Silences />
      <Acks />
      <Noise />
    </Scroll>
  );
}

function Silences() {
  const { value, error } = quiet.now.value;
  const all = lasting((value ?? NOTHING_QUIET).silences, now.value);
  return (
    <section class="panel" aria-labelledby="silences-title">
      <div class="panel-head">
        <h2 id="silences-title">
          Silences <span class="muted">{all.length > 0 ? all.length : ''}</span>
        </h2>
        <button type="button" onClick={() => askSilence(undefined)}>
          Silence…
        </button>
      </div>
      <Problem of="Silences" why={error} />
      {all.length === 0 && error === '' && (
        <Empty title="No active silences">
          <p>Agents do not receive silenced alerts. They still appear here, marked.</p>
        </Empty>
      )}
      {all.length > 0 && (
        <div class="table-wrap">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Matches</th>
                <th scope="col">Reason</th>
                <th scope="col">By</th>
                <th scope="col" class="right">
                  Ends in
                </th>
                <th scope="col">
                  <span class="unseen">Remove</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {all.map((s) => (
                <tr key={s.id}>
                  <th scope="row">
                    <Matches of={s} />
                  </th>
                  <td data-label="Reason">{s.reason || <span class="muted">none given</span>}</td>
                  <td data-label="By">{s.by}</td>
                  <td class="right" data-label="Ends in" title={full(s.until)}>
                    {duration(s.until - now.value)} <span class="muted">({clock(s.until).slice(0, 5)})</span>
                  </td>
                  <td class="right">
                    <button
                      type="button"
                      aria-label={`Remove the silence of ${oneLine([s.app, s.category, s.key].filter((w) => w !== '').join(', '))}`}
                      onClick={() =>
                        void act('Silence removed.', async () => {
                          await api.change('DELETE', `api/silences/${encodeURIComponent(s.id)}`);
                          await quiet.refresh();
                        })
                      }
                    >
                      Remove
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Matches({ of }: { of: Silence }) {
  return (
    <span class="matches">
      {of.app !== '' && (
        <span>
          app{' '}
          <b>
            <Name of={of.app} />
          </b>
        </span>
      )}
      {of.category !== '' && (
        <span>
          category <b>{categoryName(of.category)}</b>
        </span>
      )}
      {of.key !== '' && (
        <span>
          key{' '}
          <b class="code">
            <Name of={of.key} />
          </b>
        </span>
      )}
    </span>
  );
}

function Acks() {
  const all = lasting((quiet.now.value.value ?? NOTHING_QUIET).acks, now.value);
  if (all.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="acks-title">
      <div class="panel-head">
        <h2 id="acks-title">
          Acknowledged <span class="muted">{all.length}</span>
        </h2>
        <p class="muted">repeats are suppressed until the alert escalates or resolves</p>
      </div>
      <div class="table-wrap">
        <table class="cards">
          <thead>
            <tr>
              <th scope="col">Alert</th>
              <th scope="col">App</th>
              <th scope="col">By</th>
              <th scope="col" class="right">
                Since
              </th>
              <th scope="col">
                <span class="unseen">Unacknowledge</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((k) => (
              <AckRow key={k.alert} of={k} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function AckRow({ of }: { of: Ack }) {
  const alert = find(of.alert);
  return (
    <tr>
      <th scope="row">
        <SeverityName of={of.severity as Severity} />{' '}
        {alert === undefined ? (
          <span class="code">
            <Name of={of.key} />
          </span>
        ) : (
          <button type="button" class="link" onClick={() => (opened.value = alert.id)}>
            <bdi>{alert.title}</bdi>
          </button>
        )}
      </th>
      <td data-label="App">
        <Name of={of.app} />
      </td>
      <td data-label="By">{of.by}</td>
      <td class="right" data-label="Since">
        <Age time={of.created} />
      </td>
      <td class="right">
        <button
          type="button"
          aria-label={`Unacknowledge ${alert?.title ?? oneLine(of.key)}`}
          onClick={() =>
            void act('Unacknowledged.', async () => {
              await api.change('DELETE', `api/acks/${encodeURIComponent(of.alert)}`);
              await quiet.refresh();
            })
          }
        >
          Unacknowledge
        </button>
      </td>
    </tr>
  );
}

function Noise() {
  useEffect(() => noise.watch(), []);
  const { value, error } = noise.now.value;
  const change = (body: Record<string, string>) =>
    api.change('POST', 'api/noise', body).then((v) => noise.put(readRules(v)));
  const rules = value?.rules ?? [];
  const hidden = value?.hidden ?? 0;
  return (
    <section class="panel" aria-labelledby="noise-title">
      <div class="panel-head">
        <h2 id="noise-title">
          Noise rules <span class="muted">{rules.length > 0 ? rules.length : ''}</span>
        </h2>
        {hidden > 0 && <p class="muted">{hidden.toLocaleString('en')} events hidden</p>}
        <button
          type="button"
          title="Scan for noise now (also runs every minute)"
          onClick={() => void act('Scanned for noise.', () => change({ action: 'auto_detect' }))}
        >
          Detect now
        </button>
      </div>
      <Problem of="Noise rules" why={error || (value?.lacks ?? '')} />
      <AddRule onAdd={(rule) => act('Rule added.', () => change({ action: 'add', ...rule }))} />
      {value !== undefined && rules.length === 0 && (
        <Empty title="No noise rules">
          <p>Frequent messages below error level are hidden automatically. Events that match a rule raise no alert.</p>
        </Empty>
      )}
      {rules.length > 0 && (
        <div class="table-wrap">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Pattern</th>
                <th scope="col">State</th>
                <th scope="col">Kind</th>
                <th scope="col">App</th>
                <th scope="col" class="right">
                  Hidden
                </th>
                <th scope="col">
                  <span class="unseen">Change</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rules.map((rule) => (
                <RuleRow
                  key={rule.id}
                  of={rule}
                  onApply={() => void act('Rule applied.', () => change({ action: 'add', rule_id: rule.id }))}
                  onRemove={() =>
                    void act('Rule removed.', () => change({ action: 'remove', rule_id: rule.id }))
                  }
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <RemovedRules
        of={value?.removed ?? []}
        onBack={(rule) => void act('Rule restored.', () => change({ action: 'add', rule_id: rule.id }))}
      />
    </section>
  );
}

function RuleRow({ of, onApply, onRemove }: { of: Rule; onApply: () => void; onRemove: () => void }) {
  return (
    <tr>
      <th scope="row" class="code pattern">
        <Name of={of.pattern} />
        {of.examples.length > 0 && (
          <details>
            <summary class="muted">Examples</summary>
            <ul class="plain">
              {of.examples.map((example) => (
                <li key={example}>
                  <Name of={example} />
                </li>
              ))}
            </ul>
          </details>
        )}
      </th>
      <td data-label="State">
        <Tag kind={of.state === 'proposed' ? '' : 'good'}>{of.state}</Tag>
        {of.confidence > 0 && <span class="muted"> confidence {Math.round(of.confidence * 100)}%</span>}
        {of.since > 0 && (
          <span class="muted">
            {' '}
            for <Age time={of.since} />
          </span>
        )}
      </td>
      <td data-label="Kind">{of.kind || 'any'}</td>
      <td data-label="App">
        <Name of={of.app} empty="all" />
      </td>
      <td class="right" data-label="Hidden">
        {of.state !== 'proposed' && of.hidden.toLocaleString('en')}{' '}
        {effect(of).map((words) => (
          <span class="muted said" key={words}>
            {words}
          </span>
        ))}
      </td>
      <td class="right">
        {of.state === 'proposed' && (
          <button type="button" aria-label={`Apply the rule ${of.pattern}`} onClick={onApply}>
            Apply
          </button>
        )}{' '}
        <button type="button" aria-label={`Remove the rule ${of.pattern}`} onClick={onRemove}>
          Remove
        </button>
      </td>
    </tr>
  );
}

/** Removed rules are not detected again; here they can be restored. */
function RemovedRules({ of, onBack }: { of: readonly Removed[]; onBack: (rule: Removed) => void }) {
  if (of.length === 0) return null;
  return (
    <details class="removed">
      <summary>
        Removed rules <span class="muted">{of.length}</span>
      </summary>
      <ul class="plain">
        {of.map((rule) => (
          <li key={rule.id}>
            <button type="button" aria-label={`Restore the rule ${rule.pattern}`} onClick={() => onBack(rule)}>
              Restore
            </button>{' '}
            <span class="code">
              <Name of={rule.pattern} />
            </span>{' '}
            <span class="muted">
              <Name of={rule.app} empty="all" />
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function AddRule({ onAdd }: { onAdd: (rule: Record<string, string>) => Promise<boolean> }) {
  const form = useRef<HTMLFormElement>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(form.current as HTMLFormElement);
    const rule: Record<string, string> = {};
    for (const name of ['pattern', 'app', 'kind']) {
      const value = String(data.get(name) ?? '').trim();
      if (value !== '') rule[name] = value;
    }
    setBusy(true);
    if (await onAdd(rule)) form.current?.reset();
    setBusy(false);
  };
  return (
    <form ref={form} class="inline-form" onSubmit={(e) => void submit(e)} aria-label="Add a noise rule">
      <label>
        Contains text
        <input name="pattern" required maxLength={500} autocomplete="off" spellcheck={false} />
      </label>
      <label>
        App
        <input name="app" maxLength={256} placeholder="all" autocomplete="off" spellcheck={false} />
      </label>
      <label>
        Kind
        <select name="kind">
          <option value="">both</option>
          <option value="log">log</option>
          <option value="network">network</option>
        </select>
      </label>
      <button type="submit" disabled={busy}>
        Add rule
      </button>
    </form>
  );
}
