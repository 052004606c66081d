import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fingerprintOf } from '../src/fingerprint.ts';

const of = (fingerprint) => fingerprintOf(Object.assign(new Error('x'), { fingerprint }));

test('a text or some', () => {
  assert.deepEqual(of('cart'), ['cart']);
  assert.deepEqual(of(['cart', 'timeout']), ['cart', 'timeout']);
  assert.deepEqual(of(Array(16).fill('a')), Array(16).fill('a'));
});

test('anything else is none', () => {
  const values = [undefined, null, '', [], [''], 7, {}, ['a', 7], [['a']], Array(17).fill('a'), 'x'.repeat(1025), Array(2).fill('x'.repeat(600))];
  for (const value of values) assert.equal(of(value), undefined, String(value));
  for (const value of [undefined, null, 'text', 7, {}, () => {}]) assert.equal(fingerprintOf(value), undefined);
});

test('hostile errors do no harm', () => {
  let asked = 0;
  assert.equal(fingerprintOf({ get fingerprint() { asked++; return 'x'; } }), undefined);
  assert.equal(asked, 0);
  const trap = () => { throw new Error('trapped'); };
  assert.equal(fingerprintOf(new Proxy({}, { get: trap, getOwnPropertyDescriptor: trap })), undefined);
  assert.equal(of(new Proxy(['a'], { get: trap })), undefined);
});
