import { useEffect } from 'preact/hooks';

import type { Gateway, Service } from '../core/health.ts';
import { clock, duration, full } from '../core/time.ts';
import { apps, connection, now, services, session } from '../state/app.ts';
import { Empty, Name, Problem, Scroll, Tag } from './bits.tsx';

export function Services() {
  useEffect(() => services.watch(), []);
  return (
    <Scroll>
      <Health />
      <Gateways />
      <Apps />
      <ThisPage />
    </Scroll>
  );
}

function Health() {
  const { value, error } = services.loaded.value;
  const all = (value ?? []).filter((s) => s.gateway === undefined);
  return (
    <section class="panel" aria-labelledby="health-title">
      <div class="panel-head">
        <h2 id="health-title">Services</h2>
      </div>
      <Problem what="Health" why={error} />
      {value === undefined && error === '' && <p class="muted">Loading…</p>}
      {value !== undefined && all.length === 0 && <Empty title="No service answered" />}
      {all.length > 0 && (
        <div class="table-wrap">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Service</th>
                <th scope="col">State</th>
                <th scope="col">Status</th>
                <th scope="col">Version</th>
                <th scope="col">Host</th>
                <th scope="col" class="right">
                  Up for
                </th>
              </tr>
            </thead>
            <tbody>
              {all.map((s) => (
                <tr key={`${s.service} ${s.id}`} class={s.ok ? '' : 'broken'}>
                  <th scope="row">{s.service}</th>
                  <td data-label="State">
                    <State service={s} />
                  </td>
                  <td data-label="Status">
                    {s.facts.map(([name, fact]) => (
                      <span key={name} class="fact">
                        <span class="muted">{name}</span> {fact}
                        <span class="visually-hidden">; </span>
                      </span>
                    ))}
                  </td>
                  <td class="code" data-label="Version">
                    {s.version}
                  </td>
                  <td class="code" data-label="Host">
                    {s.host} {s.pid > 0 && <span class="muted">pid {s.pid}</span>}
                  </td>
                  <td class="right" data-label="Up for" title={full(s.started)}>
                    {s.started > 0 ? duration(Math.max(0, now.value - s.started)) : ''}
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

function State({ service }: { service: Service }) {
  return (
    <span class={service.ok ? 'status success' : 'status failure'}>
      <span class="sign" aria-hidden="true">
        {service.ok ? '✓' : '✕'}
      </span>
      {service.ok ? 'healthy' : service.reason || 'unhealthy'}
    </span>
  );
}

function Gateways() {
  const all = (services.loaded.value.value ?? []).filter(
    (s): s is Service & { gateway: Gateway } => s.gateway !== undefined,
  );
  return (
    <section class="panel" aria-labelledby="gateways-title">
      <div class="panel-head">
        <h2 id="gateways-title">
          Agents <span class="muted">{all.length > 0 ? all.length : ''}</span>
        </h2>
        <p class="muted">Connected MCP clients and their notifications</p>
      </div>
      {all.length === 0 && <Empty title="No agent is connected" />}
      {all.length > 0 && (
        <div class="table-wrap">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">Client</th>
                <th scope="col">State</th>
                <th scope="col" class="right">
                  Inbox
                </th>
                <th scope="col">Notifications</th>
                <th scope="col" class="right">
                  Notified
                </th>
                <th scope="col" class="right">
                  Pending
                </th>
                <th scope="col" class="right">
                  Suppressed
                </th>
                <th scope="col" class="right">
                  Dropped
                </th>
                <th scope="col">MCP</th>
                <th scope="col" class="right">
                  Up for
                </th>
              </tr>
            </thead>
            <tbody>
              {all.map((s) => (
                <tr key={s.id} class={s.ok ? '' : 'broken'}>
                  <th scope="row">
                    <Name text={s.gateway.client} empty="(unnamed client)" />
                  </th>
                  <td data-label="State">
                    <State service={s} />
                  </td>
                  <td class="right" data-label="Inbox">
                    {s.gateway.inbox}
                  </td>
                  <td data-label="Notifications">
                    <Notifications gateway={s.gateway} />
                  </td>
                  <td class="right" data-label="Notified">
                    {s.gateway.notified.toLocaleString('en')}
                  </td>
                  <td class="right" data-label="Pending">
                    {s.gateway.pending.toLocaleString('en')}
                  </td>
                  <td class="right" data-label="Suppressed">
                    {s.gateway.suppressed.toLocaleString('en')}
                  </td>
                  <td class="right" data-label="Dropped">
                    {s.gateway.dropped.toLocaleString('en')}
                  </td>
                  <td class="code" data-label="MCP">
                    {s.gateway.protocol}
                  </td>
                  <td class="right" data-label="Up for" title={full(s.started)}>
                    {s.started > 0 ? duration(Math.max(0, now.value - s.started)) : ''}
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

function Notifications({ gateway }: { gateway: Gateway }) {
  if (!gateway.streaming) return <span class="muted">off</span>;
  return (
    <span>
      <Tag kind="good">on</Tag> {gateway.events.join(', ')}
      {gateway.severity !== '' && `, from ${gateway.severity}`}
      {gateway.throttle > 0 && `, every ${gateway.throttle} s`}
      {gateway.url !== '' && `, ${gateway.url}`}
    </span>
  );
}

function Apps() {
  useEffect(() => apps.watch(), []);
  const { value, error } = apps.loaded.value;
  const all = value?.apps;
  return (
    <section class="panel" aria-labelledby="apps-title">
      <div class="panel-head">
        <h2 id="apps-title">
          Apps <span class="muted">{all !== undefined && all.length > 0 ? all.length : ''}</span>
        </h2>
        <p class="muted">Apps that send events</p>
      </div>
      <Problem what="Apps" why={error || (value?.incomplete ?? '')} />
      {all !== undefined && all.length === 0 && <Empty title="No events received yet" />}
      {all !== undefined && all.length > 0 && (
        <div class="table-wrap">
          <table class="cards">
            <thead>
              <tr>
                <th scope="col">App</th>
                <th scope="col">Senders</th>
                <th scope="col" class="right">
                  Last event
                </th>
                <th scope="col" class="right">
                  In the last minute
                </th>
              </tr>
            </thead>
            <tbody>
              {all.map((a) => (
                <tr key={a.app}>
                  <th scope="row">
                    <Name text={a.app} />
                  </th>
                  <td data-label="Senders">{a.senders.join(', ')}</td>
                  <td class="right" data-label="Last event">
                    {duration(a.age * 1000)} ago
                  </td>
                  <td class="right" data-label="In the last minute">
                    {a.lastMinute.toLocaleString('en')}
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

const TRANSPORTS = { websocket: 'the NATS websocket', events: 'the dashboard’s event stream', none: 'disconnected' };

function ThisPage() {
  const s = session.value;
  const { transport, since } = connection.value;
  return (
    <section class="panel" aria-labelledby="this-title">
      <div class="panel-head">
        <h2 id="this-title">This page</h2>
      </div>
      <dl class="facts wide">
        <dt>Live over</dt>
        <dd>
          {TRANSPORTS[transport]}
          {transport === 'none' && since > 0 && ` (since ${clock(since)})`}
        </dd>
        <dt>Websocket</dt>
        <dd class="code">{s === undefined ? 'loading' : (s.bus?.url ?? 'not configured')}</dd>
        <dt>Version</dt>
        <dd class="code">{s?.version ?? ''}</dd>
        {s !== undefined && !s.canAct && (
          <>
            <dt>Actions</dt>
            <dd>{s.cannotActReason}</dd>
          </>
        )}
      </dl>
    </section>
  );
}
