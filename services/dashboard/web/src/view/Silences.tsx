// The view of silences, acknowledgements and noise rules.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { Severity } from '../core/alert.ts';
import { effect, readRules, type Removed, type Rule } from '../core/noise.ts';
import { type Ack, active, NO_SUPPRESSIONS, type Silence } from '../core/suppression.ts';
import { oneLine } from '../core/text.ts';
import { clock, duration, full } from '../core/time.ts';
import { api, find, noise, now, opened, openSilenceDialog, runAction, session, suppressions } from '../state/app.ts';
import { Age, categoryName, Empty, Name, Problem, Scroll, SeverityName, Tag } from './bits.tsx';

export function Silences() {
  useEffect(() => suppressions.watch(), []);
  const access = session.value;
  return (
    <Scroll>
      {access !== undefined && !access.canAct && <Problem what="Changes are not possible here" why={access.cannotActReason} />}
      <ActiveSilences />
      <Acknowledgements />
      <NoiseRules />
    </Scroll>
  );
}

function ActiveSilences() {
  const { value, error } = suppressions.loaded.value;
  const all = active((value ?? NO_SUPPRESSIONS).silences, now.value);
  return (
    <section class="panel" aria-labelledby="silences-title">
      <div class="panel-head">
        <h2 id="silences-title">
          Silences <span class="muted">{all.length > 0 ? all.length : ''}</span>
        </h2>
        <button type="button" onClick={() => openSilenceDialog(undefined)}>
          Silence…
        </button>
      </div>
      <Problem what="Silences" why={error} />
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
                  <span class="visually-hidden">Remove</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {all.map((s) => (
                <tr key={s.id}>
                  <th scope="row">
                    <Matches silence={s} />
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
                        void runAction('Silence removed.', async () => {
                          await api.change('DELETE', `api/silences/${encodeURIComponent(s.id)}`);
                          await suppressions.refresh();
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

function Matches({ silence }: { silence: Silence }) {
  return (
    <span class="matches">
      {silence.app !== '' && (
        <span>
          app{' '}
          <b>
            <Name text={silence.app} />
          </b>
        </span>
      )}
      {silence.category !== '' && (
        <span>
          category <b>{categoryName(silence.category)}</b>
        </span>
      )}
      {silence.key !== '' && (
        <span>
          key{' '}
          <b class="code">
            <Name text={silence.key} />
          </b>
        </span>
      )}
    </span>
  );
}

function Acknowledgements() {
  const all = active((suppressions.loaded.value.value ?? NO_SUPPRESSIONS).acks, now.value);
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
                <span class="visually-hidden">Unacknowledge</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((ack) => (
              <AckRow key={ack.alert} ack={ack} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function AckRow({ ack }: { ack: Ack }) {
  const alert = find(ack.alert);
  return (
    <tr>
      <th scope="row">
        <SeverityName severity={ack.severity as Severity} />{' '}
        {alert === undefined ? (
          <span class="code">
            <Name text={ack.key} />
          </span>
        ) : (
          <button type="button" class="link" onClick={() => (opened.value = alert.id)}>
            <bdi>{alert.title}</bdi>
          </button>
        )}
      </th>
      <td data-label="App">
        <Name text={ack.app} />
      </td>
      <td data-label="By">{ack.by}</td>
      <td class="right" data-label="Since">
        <Age time={ack.created} />
      </td>
      <td class="right">
        <button
          type="button"
          aria-label={`Unacknowledge ${alert?.title ?? oneLine(ack.key)}`}
          onClick={() =>
            void runAction('Unacknowledged.', async () => {
              await api.change('DELETE', `api/acks/${encodeURIComponent(ack.alert)}`);
              await suppressions.refresh();
            })
          }
        >
          Unacknowledge
        </button>
      </td>
    </tr>
  );
}

function NoiseRules() {
  useEffect(() => noise.watch(), []);
  const { value, error } = noise.loaded.value;
  const change = (body: Record<string, string>) =>
    api.change('POST', 'api/noise', body).then((v) => noise.set(readRules(v)));
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
          onClick={() => void runAction('Scanned for noise.', () => change({ action: 'auto_detect' }))}
        >
          Detect now
        </button>
      </div>
      <Problem what="Noise rules" why={error || (value?.incomplete ?? '')} />
      <AddRule onAdd={(rule) => runAction('Rule added.', () => change({ action: 'add', ...rule }))} />
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
                  <span class="visually-hidden">Change</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rules.map((rule) => (
                <RuleRow
                  key={rule.id}
                  rule={rule}
                  onApply={() => void runAction('Rule applied.', () => change({ action: 'add', rule_id: rule.id }))}
                  onRemove={() =>
                    void runAction('Rule removed.', () => change({ action: 'remove', rule_id: rule.id }))
                  }
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <RemovedRules
        rules={value?.removed ?? []}
        onRestore={(rule) => void runAction('Rule restored.', () => change({ action: 'add', rule_id: rule.id }))}
      />
    </section>
  );
}

function RuleRow({ rule, onApply, onRemove }: { rule: Rule; onApply: () => void; onRemove: () => void }) {
  return (
    <tr>
      <th scope="row" class="code pattern">
        <Name text={rule.pattern} />
        {rule.examples.length > 0 && (
          <details>
            <summary class="muted">Examples</summary>
            <ul class="plain">
              {rule.examples.map((example) => (
                <li key={example}>
                  <Name text={example} />
                </li>
              ))}
            </ul>
          </details>
        )}
      </th>
      <td data-label="State">
        <Tag kind={rule.state === 'proposed' ? '' : 'good'}>{rule.state}</Tag>
        {rule.confidence > 0 && <span class="muted"> confidence {Math.round(rule.confidence * 100)}%</span>}
        {rule.since > 0 && (
          <span class="muted">
            {' '}
            for <Age time={rule.since} />
          </span>
        )}
      </td>
      <td data-label="Kind">{rule.kind || 'any'}</td>
      <td data-label="App">
        <Name text={rule.app} empty="all" />
      </td>
      <td class="right" data-label="Hidden">
        {rule.state !== 'proposed' && rule.hidden.toLocaleString('en')}{' '}
        {effect(rule).map((text) => (
          <span class="muted fact" key={text}>
            {text}
          </span>
        ))}
      </td>
      <td class="right">
        {rule.state === 'proposed' && (
          <button type="button" aria-label={`Apply the rule ${rule.pattern}`} onClick={onApply}>
            Apply
          </button>
        )}{' '}
        <button type="button" aria-label={`Remove the rule ${rule.pattern}`} onClick={onRemove}>
          Remove
        </button>
      </td>
    </tr>
  );
}

/** Removed rules are not detected again; here they can be restored. */
function RemovedRules({ rules, onRestore }: { rules: readonly Removed[]; onRestore: (rule: Removed) => void }) {
  if (rules.length === 0) return null;
  return (
    <details class="removed">
      <summary>
        Removed rules <span class="muted">{rules.length}</span>
      </summary>
      <ul class="plain">
        {rules.map((rule) => (
          <li key={rule.id}>
            <button type="button" aria-label={`Restore the rule ${rule.pattern}`} onClick={() => onRestore(rule)}>
              Restore
            </button>{' '}
            <span class="code">
              <Name text={rule.pattern} />
            </span>{' '}
            <span class="muted">
              <Name text={rule.app} empty="all" />
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
