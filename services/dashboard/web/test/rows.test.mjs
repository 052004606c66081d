import assert from 'node:assert/strict';
import { test } from 'node:test';

import { EVERYTHING, fromQuery, matcher, terms, toQuery } from '../src/core/filter.ts';
import { suppressedBy, readAcks, readSilences } from '../src/core/suppression.ts';
import { rows, tally } from '../src/core/rows.ts';
import { Store } from '../src/core/store.ts';
import { alert, T0 } from './alerts.mjs';

const at = (s) => new Date(T0 + s * 1000).toISOString();
const suppressions = (silences, acks = []) => ({ silences: readSilences(silences), acks: readAcks(acks) });
const none = suppressions([]);

function store(...alerts) {
  const s = new Store();
  s.add(alerts);
  return s;
}

function shown(s, { filter = {}, ...options } = {}) {
  const all = rows(s, { filter: { ...EVERYTHING, ...filter }, group: false, suppressions: none, now: T0, ...options });
  return all.map(({ alert: a, count, resolved }) => `${a.seq}${count > 1 ? `x${count}` : ''}${resolved ? ' resolved' : ''}`);
}

test('rows: newest first, without replaced alerts', () => {
  const s = store(alert(1), alert(2, { revises: 'a1' }), alert(3), alert(4, { resolves: 'a3', severity: 'info' }));
  assert.deepEqual(shown(s), ['4', '3 resolved', '2']);
  assert.deepEqual(shown(s, { filter: { current: true } }), ['2']);
});

test('rows: repeats in one row', () => {
  const s = store(
    alert(1, { dedup_key: 'k', count: 4 }),
    alert(2, { dedup_key: 'other' }),
    alert(3, { dedup_key: 'k', app: 'shop' }),
    alert(4, { dedup_key: 'k' }),
    alert(5, { dedup_key: 'k', resolves: 'a4', severity: 'info' }),
    alert(6, { dedup_key: '' }),
    alert(7, { dedup_key: '' }),
  );
  assert.deepEqual(shown(s, { group: true }), ['7', '6', '5', '4x5 resolved', '3', '2']);
  const keys = rows(s, { filter: EVERYTHING, group: true, suppressions: none, now: T0 }).map((r) => r.key);
  assert.equal(new Set(keys).size, keys.length);
});

test('filter', () => {
  const a = alert(1, {
    title: 'LCP regressed 34% on /cart',
    detail: 'LCP 3350 ms, baseline 2500 ms',
    severity: 'warning',
    category: 'regression',
    app: 'Shop',
    context: { metric: 'lcp_ms', note: '<script>' },
  });
  for (const [filter, want] of [
    [{}, true],
    [{ severities: ['warning', 'error'] }, true],
    [{ severities: ['error'] }, false],
    [{ categories: ['regression'] }, true],
    [{ categories: ['ci'] }, false],
    [{ apps: ['Shop'] }, true],
    [{ apps: ['shop'] }, false],
    [{ search: 'lcp CART' }, true],
    [{ search: 'lcp basket' }, false],
    [{ search: '"baseline 2500"' }, true],
    [{ search: '"2500 baseline"' }, false],
    [{ search: '-cart' }, false],
    [{ search: 'lcp -basket' }, true],
    [{ search: 'lcp_ms <script>' }, true],
    [{ search: '  ' }, true],
    [{ search: '"' }, true],
    [{ search: '.*' }, false],
  ]) {
    assert.equal(matcher({ ...EVERYTHING, ...filter })(a), want, JSON.stringify(filter));
  }
  assert.deepEqual(terms('a -"b c" "d'), [
    { text: 'a', not: false },
    { text: 'b c', not: true },
    { text: 'd', not: false },
  ]);
});

test('a filter is the same after toQuery and fromQuery', () => {
  for (const filter of [
    EVERYTHING,
    { severities: ['warning', 'error'], categories: ['ci'], apps: ['a&b=c', '<i>'], search: '"a b" -c #?', current: true },
  ]) {
    assert.deepEqual(fromQuery(toQuery(filter)), filter);
  }
  assert.deepEqual(fromQuery(`severity=fatal&q=${'x'.repeat(900)}`), { ...EVERYTHING, search: 'x'.repeat(500) });
});

const silence = (more) => suppressions([{ id: 's', created: at(0), until: at(60), ...more }]);
const ack = (more) =>
  suppressions([], [{ alert_id: 'a5', app: 'web', dedup_key: 'k', severity: 'error', since: at(5), created: at(6), until: at(900), ...more }]);

// The rules are those of shared/silence.
for (const [name, list, a, want] of [
  ['by app', silence({ app: 'web' }), alert(5), 'silence'],
  ['another app', silence({ app: 'shop' }), alert(5), undefined],
  ['app and category', silence({ app: 'web', category: 'ci' }), alert(5), undefined],
  ['by key', silence({ dedup_key: 'k5' }), alert(5), 'silence'],
  ['raised before it', silence({ app: 'web', created: at(6) }), alert(5), undefined],
  ['raised when it ended', silence({ app: 'web', until: at(5) }), alert(5), undefined],
  ['a silence without a matcher matches nothing', silence({}), alert(5), undefined],
  ['acknowledged', ack(), alert(5, { dedup_key: 'k' }), 'ack'],
  ['a repeat', ack(), alert(9, { dedup_key: 'k' }), 'ack'],
  ['a repeat in another app', ack(), alert(9, { dedup_key: 'k', app: 'shop' }), undefined],
  ['a repeat that is more severe', ack({ severity: 'warning' }), alert(9, { dedup_key: 'k' }), undefined],
  ['its resolution', ack(), alert(9, { dedup_key: 'k', resolves: 'a5' }), undefined],
  ['after the acknowledgement ended', ack({ until: at(8) }), alert(9, { dedup_key: 'k' }), undefined],
]) {
  test(`suppressedBy: ${name}`, () => {
    const suppressor = suppressedBy(list, a, T0 + 100_000);
    assert.equal(suppressor && Object.keys(suppressor)[0], want);
  });
}

test('tally counts by severity, category and app', () => {
  const { severities, categories, apps } = tally(
    store(alert(1), alert(2, { revises: 'a1', severity: 'warning' }), alert(3, { category: 'ci', app: 'constructor' })),
  );
  assert.deepEqual(Object.entries(severities), [
    ['warning', 1],
    ['error', 1],
  ]);
  assert.deepEqual(Object.entries(categories), [
    ['errors', 1],
    ['ci', 1],
  ]);
  assert.deepEqual(Object.entries(apps), [
    ['web', 1],
    ['constructor', 1],
  ]);
});
