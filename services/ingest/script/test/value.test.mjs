import assert from 'node:assert/strict';
import { test } from 'node:test';

import { argumentsOf, message } from '../src/format.ts';
import { encode } from '../src/json.ts';
import { errorText, plain } from '../src/value.ts';

const json = (value, left = 2048) => encode(plain(value, { left }));

test('plain values stay what they are', () => {
  for (const value of [null, true, 1.5, 'text', [1, [2]], { a: { b: 'c' } }]) assert.equal(json(value), JSON.stringify(value));
});

test('what JSON does not know becomes a text', () => {
  const table = [
    [undefined, 'undefined'],
    [NaN, 'NaN'],
    [10n, '10n'],
    [Symbol('s'), 'Symbol(s)'],
    [function save() {}, '[function save]'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    [new Date(NaN), 'Invalid Date'],
    [/x/g, '/x/g'],
    [new Map([[1, 2]]), '[Map of 1]'],
    [new Uint8Array(1e6), '[Uint8Array, 1000000 bytes]'],
    [new TypeError('no'), 'TypeError: no'],
  ];
  for (const [value, want] of table) assert.equal(json(value), JSON.stringify(want));
});

test('hostile values do no harm', () => {
  const cyclic = { name: 'a' };
  cyclic.self = cyclic;
  assert.equal(json(cyclic), '{"name":"a","self":"[circular]"}');
  let asked = 0;
  const getter = { get x() { asked++; throw new Error('no'); }, y: 1 };
  assert.equal(json(getter), '{"x":"[getter]","y":1}');
  assert.equal(asked, 0);
  const trap = () => { throw new Error('trapped'); };
  const proxy = new Proxy({}, { get: trap, ownKeys: trap, getOwnPropertyDescriptor: trap, getPrototypeOf: trap, has: trap });
  assert.equal(json([1, proxy]), '[1,"[unreadable]"]');
  const { proxy: gone, revoke } = Proxy.revocable([], {});
  revoke();
  assert.equal(json(gone), '"[unreadable]"');
  assert.equal(json(JSON.parse('{"__proto__":{"a":1}}')), '{"__proto__":{"a":1}}');
  const liar = new Error('x');
  Object.defineProperty(liar, 'message', { get: trap });
  assert.equal(errorText(liar), 'Error');
});

test('toJSON of the page is not asked', () => {
  Object.prototype.toJSON = Array.prototype.toJSON = () => 'evil';
  try {
    assert.equal(encode({ a: [1, 'x'], b: undefined, c: null }), '{"a":[1,"x"],"c":null}');
  } finally {
    delete Object.prototype.toJSON;
    delete Array.prototype.toJSON;
  }
});

test('everything is bounded', () => {
  let deep = {};
  for (let i = 0; i < 1e4; i++) deep = { deep };
  const wide = Object.fromEntries(Array.from({ length: 1e4 }, (_, i) => ['k'.repeat(100) + i, 'v'.repeat(1e4)]));
  for (const value of [deep, wide, Array(1e6).fill('x'.repeat(100)), 'x'.repeat(1e7), [wide, wide], 'k\u0001'.repeat(1e5)]) {
    const text = json(value);
    assert.ok(text.length < 4096, `${text.length} bytes`);
    assert.doesNotThrow(() => JSON.parse(text));
  }
  assert.ok(message(['%s'.repeat(1e4), ...Array(1e4).fill('x'.repeat(1e4))]).length <= 4096);
});

test('a message reads as in the console', () => {
  const table = [
    [['plain'], 'plain'],
    [['a %s of %d, %o', 'word', 3, { a: 1 }, 'rest'], 'a word of 3, {"a":1} rest'],
    [['%cstyled', 'color: red'], 'styled'],
    [['100%% %s'], '100% %s'],
    [[new Error('boom'), 'then', 1], 'Error: boom then 1'],
    [[], ''],
  ];
  for (const [args, want] of table) assert.equal(message(args), want);
  assert.equal(argumentsOf(['only a text']), undefined);
  assert.deepEqual(argumentsOf(['x', { a: 1 }]).length, 2);
});
