import assert from 'node:assert/strict';
import { test } from 'node:test';

import { effect, readRules } from '../src/core/noise.ts';

const applied = {
  rule_id: 'noise_1',
  app: 'web',
  state: 'applied',
  kind: 'log',
  pattern: 'user <*> signed in',
  confidence: 0.99,
  hidden: 1200,
  hidden_last_10min: 12,
  alerts_held: 1,
  example: 'old',
  examples: ['user alice signed in', 7, 'user bob\nsigned in'],
  since: '2026-01-28T14:30:00.000Z',
  last_seen: 'yesterday',
};
const proposed = {
  rule_id: 'noise_2',
  state: 'proposed',
  pattern: '/health',
  hidden: 0,
  would_hide: 3,
  would_hide_last_10min: 23,
  would_hold_alerts: 2,
};
const manual = { rule_id: 'm', state: 'manual', pattern: 'x', hidden: 4, alerts_held: 2, example: 'old' };

test('noise: the effect of a rule, and of a proposal', () => {
  const { rules, hidden, removed } = readRules({
    rules: [applied, proposed, manual],
    hidden_total: 1204,
    removed: [{ rule_id: 'noise_3', app: 'web', kind: 'log', pattern: 'tick <n>' }],
  });
  assert.deepEqual(
    rules.map((r) => [r.hidden, r.recent, r.alerts]),
    [
      [1200, 12, 1],
      [3, 23, 2],
      [4, 0, 2],
    ],
  );
  assert.deepEqual(rules.map(effect), [
    ['12 in 10 min', '1 alert suppressed'],
    ['would hide 3', '23 in 10 min', 'would suppress 2 alerts'],
    ['2 alerts suppressed'],
  ]);
  assert.equal(rules[0].examples.length, 2);
  assert.ok(!rules[0].examples[1].includes('\n'));
  assert.deepEqual(rules[1].examples, []);
  assert.deepEqual(rules[2].examples, ['old']);
  assert.deepEqual([rules[0].since, rules[0].lastSeen], [Date.parse('2026-01-28T14:30:00Z'), 0]);
  assert.equal(hidden, 1204);
  assert.deepEqual(removed, [{ id: 'noise_3', app: 'web', kind: 'log', pattern: 'tick <n>' }]);
});

test('noise: an answer with fewer fields', () => {
  const rule = { rule_id: 'a', state: 'applied', pattern: 'x', hidden: 5 };
  const { rules, hidden, removed } = readRules({ rules: [rule], found: 1 });
  assert.deepEqual([rules[0].hidden, rules[0].recent, rules[0].examples, rules[0].since], [5, 0, [], 0]);
  assert.deepEqual(effect(rules[0]), []);
  assert.equal(hidden, 0);
  assert.deepEqual(removed, []);
  assert.deepEqual(readRules('nonsense').rules, []);
});
