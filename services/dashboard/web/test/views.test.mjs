import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Announcer, ANNOUNCEMENT_INTERVAL } from '../src/core/announce.ts';
import { refs } from '../src/core/ci.ts';
import { readNearbyEvents } from '../src/core/nearby.ts';
import { readServices } from '../src/core/health.ts';
import { MAX_NOTICES, readNotice, withNotices } from '../src/core/notices.ts';
import { rate, SPANS } from '../src/core/rate.ts';
import { Store } from '../src/core/store.ts';
import { age, duration, offset } from '../src/core/time.ts';
import { curves, readPages } from '../src/core/vitals.ts';
import { alert, T0 } from './alerts.mjs';

const at = (s) => new Date(T0 + s * 1000).toISOString();

test('rate: the last bucket contains now, and severities are counted separately', () => {
  const [quarter] = SPANS;
  const now = T0 + 7_000;
  const all = [
    alert(1),
    alert(2, { severity: 'info' }),
    alert(3),
    alert(4, { timestamp: at(-20) }),
    alert(5, { timestamp: at(-16 * 60) }),
  ];
  const r = rate(all, quarter, now);
  assert.equal(r.times.length, 60);
  assert.equal(r.times.at(-1), T0);
  assert.deepEqual(
    r.counts.map((c) => c.at(-1)),
    [1, 0, 2],
  );
  assert.equal(r.counts[2].at(-3), 1);
  assert.equal(r.total, 4);
  for (const span of SPANS) assert.ok(rate([], span, now).times.length <= 100, span.name);
});

const ci = (seq, ref, name, status, more = {}) =>
  alert(seq, { category: 'ci', context: { ref, name, status, source: 'custom', commit: `c${seq}`, failures: [] }, ...more });

test('refs: the latest and the previous results of each pipeline', () => {
  const s = new Store();
  s.add([
    ci(1, 'main', 'test', 'failure'),
    ci(2, 'main', 'lint', 'success'),
    ci(3, 'dev', 'test', 'error'),
    ci(4, 'main', 'test', 'success'),
    ci(5, 'main', 'test', 'success', { revises: 'a4' }),
    alert(6),
    ci(7, 'release', 'lint', 'success', { revises: 'a2' }),
  ]);
  const found = refs(s).map((r) => ({
    ref: r.ref,
    failed: r.failed,
    pipelines: r.pipelines.map((p) => [p.name, p.latest.alert.seq, ...p.previous.map((b) => b.alert.seq)]),
  }));
  assert.deepEqual(found, [
    { ref: 'release', failed: 0, pipelines: [['lint', 7]] },
    { ref: 'main', failed: 0, pipelines: [['lint', 2], ['test', 5, 1]] },
    { ref: 'dev', failed: 1, pipelines: [['test', 3]] },
  ]);
});

test('refs: unexpected types in the context', () => {
  const s = new Store();
  s.add([
    alert(1, { category: 'ci', context: { ref: {}, failures: 'x', status: null } }),
    alert(2, { category: 'ci', context: { ref: '__proto__', failures: [null, 7] } }),
  ]);
  assert.deepEqual(
    refs(s).map((r) => r.ref),
    ['__proto__', ''],
  );
});

test('vitals: loads, baselines and alerts', () => {
  const {
    pages: [page],
  } = readPages({
    pages: [
      {
        app: 'web',
        page: '/cart',
        baselines: { lcp_ms: { median: 2500, loads: 20 } },
        loads: [
          { received: at(5), values: { lcp_ms: 3350, cls: 0.1 } },
          { received: at(1), values: { lcp_ms: 2500 } },
          { received: 'x', values: { lcp_ms: 1 } },
        ],
      },
    ],
  });
  const about = { category: 'regression', context: { metric: 'lcp_ms', page: '/cart' } };
  const [lcp, cls, ...more] = curves(page, [alert(5, about), alert(6, { ...about, app: 'shop' }), alert(7)]);
  assert.deepEqual([lcp.vital.key, lcp.values, lcp.baseline, lcp.marks.map((m) => m.alert.seq)], ['lcp_ms', [2500, 3350], 2500, [5]]);
  assert.deepEqual([cls.vital.key, cls.baseline, more.length], ['cls', undefined, 0]);
  assert.deepEqual(readPages(null), { pages: [], incomplete: '' });
});

test('vitals: an alert is drawn at its load, also if several have the same time', () => {
  const values = [2500, 2501, 4200, 2502];
  const loads = [...values.map((lcp_ms) => ({ received: at(1), values: { lcp_ms } })), { received: at(2), values: { lcp_ms: 2500 } }];
  const [page] = readPages({ pages: [{ app: 'web', page: '/cart', loads }] }).pages;
  const about = { category: 'regression', timestamp: at(1), context: { metric: 'lcp_ms', page: '/cart', value: 4200 } };
  const [lcp] = curves(page, [alert(5, about), alert(6, { ...about, context: { ...about.context, value: 1 } }), alert(7, { ...about, timestamp: at(1.5) })]);
  const begin = T0 + 1000;
  assert.deepEqual(lcp.positions, [begin, begin + 1, begin + 2, begin + 3, begin + 1000]);
  assert.deepEqual(lcp.times, [begin, begin, begin, begin, begin + 1000]);
  assert.deepEqual(
    lcp.marks.map((m) => [m.position, m.time]),
    [
      [begin + 2, begin],
      [begin + 3, begin],
      [begin + 500, begin + 500],
    ],
  );
});

test('nearby events: oldest first, one line each, with any content', () => {
  const { events: lines, incomplete } = readNearbyEvents({
    unanswered: [3],
    events: [
      { kind: 'network', received: at(3), network: { method: 'POST', url: '/api', status: 0, error: 'refused' } },
      { kind: 'log', received: at(1), log: { level: 'error', message: 'a\nb', stack: 'at x\nat y' } },
      { kind: 'vitals', received: at(2), vitals: { lcp_ms: 2500, cls: 0.02 } },
      { kind: 'tomorrow', received: at(4), tomorrow: { a: 1 } },
      { kind: 'memory', received: at(5) },
      { kind: 'log' },
    ],
  });
  assert.deepEqual(
    lines.map((l) => [l.summary, l.bad]),
    [
      ['error: a␊b', true],
      ['LCP 2500 ms, CLS 0.02', false],
      ['POST /api → refused', true],
      ['{"a":1}', false],
      ['0 MiB of 0 MiB', false],
    ],
  );
  assert.equal(lines[0].details, 'at x\nat y');
  assert.match(incomplete, /one partition of the telemetry/);
});

test('notices: the newest, each once, also if it was received live and read', () => {
  const notice = (n, seq) => readNotice({ message: `m${n}`, level: 'warn', client: 'c', timestamp: at(n) }, seq);
  let list = withNotices([], [notice(1, 1), notice(2, 2)]);
  list = withNotices(list, [notice(2, 2), notice(3, 3)]);
  assert.deepEqual(
    list.map((n) => n.message),
    ['m3', 'm2', 'm1'],
  );
  list = withNotices(list, [notice(3)]);
  assert.equal(list.length, 3);
  list = withNotices(
    list,
    Array.from({ length: 300 }, (_, i) => notice(i + 10, i + 10)),
  );
  assert.equal(list.length, MAX_NOTICES);
  assert.equal(list[0].message, 'm309');
  assert.equal(readNotice({ message: '' }), undefined);
  assert.equal(readNotice({ message: 'x', level: 'fatal', timestamp: at(0) })?.level, 'info');
});

test('services: facts and gateways', () => {
  const [detector, two, alone, ingest, ajar, gateway, odd] = readServices({
    services: [
      { service: 'detector', id: 'd', ok: true, detector: { ready: true, behind: 0, lost: 0, partitions: [], of: 4 } },
      { service: 'detector', id: 'e', ok: true, detector: { ready: true, behind: 0, lost: 0, partitions: [0, 2], of: 4 } },
      { service: 'detector', id: 'f', ok: true, detector: { ready: true, behind: 0, lost: 0, partitions: [0], of: 1 } },
      { service: 'ingest', id: 'i', ok: true, ingest: { pressure: 'normal', circuit: 'closed', accepted: 1 } },
      { service: 'ingest', id: 'j', ok: true, ingest: { pressure: 'normal', circuit: 'ajar', accepted: 1 } },
      { service: 'gateway', id: 'g', ok: true, gateway: { client: 'c', streaming: true, events: ['ci', 7] } },
      null,
    ],
  });
  assert.deepEqual(detector.facts.at(-1), ['partitions', 'standby for 4']);
  assert.deepEqual(two.facts.at(-1), ['partitions', '2 of 4 (no. 0, no. 2)']);
  assert.deepEqual(alone.facts.at(-1), ['dropped', '0']);
  assert.deepEqual(ingest.facts[1], ['bus', 'ok']);
  assert.deepEqual(ajar.facts[1], ['bus', 'ajar']);
  assert.deepEqual(gateway.gateway.events, ['ci']);
  assert.equal(odd.ok, false);
});

test('services: the clusters of a kubewatch', () => {
  const [k, none] = readServices({
    services: [
      {
        service: 'kubewatch',
        id: 'k',
        ok: false,
        reason: 'degraded',
        kubewatch: {
          clusters: [
            { cluster: 'dev', active: true, degraded: false, events: 1200, faults: 3, logs: 2 },
            { cluster: 'prod', active: true, degraded: true, error: 'forbidden' },
            { cluster: 'eu', active: false },
            7,
          ],
        },
      },
      { service: 'kubewatch', id: 'l', ok: true, kubewatch: { clusters: null } },
    ],
  });
  assert.deepEqual(k.facts, [
    ['dev', 'watched (events 1,200, faults 3, logs 2)'],
    ['prod', "can't be watched: forbidden"],
    ['eu', 'standby'],
  ]);
  assert.deepEqual(none.facts, []);
});

test('announcements: at most one sentence in each interval', () => {
  const a = new Announcer();
  assert.equal(a.take(0), '');
  a.add([alert(1, { title: 'boom' })]);
  assert.equal(a.take(0), '1 new alert: 1 error. boom');
  a.add([alert(2, { severity: 'info', title: 'fine' }), alert(3, { title: 'bang' }), alert(4, { severity: 'warning' })]);
  assert.equal(a.take(ANNOUNCEMENT_INTERVAL - 1), '');
  assert.equal(a.take(ANNOUNCEMENT_INTERVAL), '3 new alerts: 1 error, 1 warning, 1 info. Last: bang');
  assert.equal(a.take(ANNOUNCEMENT_INTERVAL * 3), '');
});

test('times', () => {
  for (const [got, want] of [
    [age(0, 999), 'now'],
    [age(5, 0), 'now'],
    [age(0, 59_999), '59 s'],
    [age(0, 60_000), '1 min'],
    [age(0, 3_600_000), '1 h'],
    [age(0, 49 * 3_600_000), '2 d'],
    [duration(12), '12 ms'],
    [duration(2345), '2.3 s'],
    [duration(45_000), '45 s'],
    [duration(65_000), '1 min 5 s'],
    [duration(7_380_000), '2 h 3 min'],
    [offset(0, 2300), '−2.3 s'],
    [offset(65_000, 0), '+1 min 5 s'],
  ]) {
    assert.equal(got, want);
  }
});

test('no file turns text into HTML', () => {
  const makes = /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|document\.write|createContextualFragment|srcdoc|\beval\(|new Function/i;
  const files = readdirSync('src', { recursive: true }).filter((name) => /\.tsx?$/.test(name));
  assert.ok(files.length > 20);
  for (const file of files) assert.doesNotMatch(readFileSync(`src/${file}`, 'utf8'), makes, file);
});
