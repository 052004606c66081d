import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bytes, clip } from '../src/text.ts';

test('a text that fits is left alone', () => {
  assert.equal(clip('hello', 5), 'hello');
  assert.equal(clip('', 0), '');
  assert.equal(clip('\u00e4\u00e4', 4), '\u00e4\u00e4');
});

test('a text that is too long is cut and marked, within the bound', () => {
  assert.equal(clip('hello world', 8), 'hello\u2026');
  for (const text of ['abcdefgh', '\u0001\u0002"\\\n', 'a\u{1f600}b\u{1f600}c', '\u20ac\u20ac\u20ac\u20ac', '\ud800\ud800']) {
    for (let max = 3; max < 40; max++) {
      const cut = clip(text.repeat(9), max);
      assert.ok(Buffer.byteLength(JSON.stringify(cut)) - 2 <= max, `${JSON.stringify(cut)} is over ${max}`);
      assert.ok(!/[\ud800-\udbff]\u2026$/.test(cut) || text.startsWith('\ud800'), `a pair was cut: ${JSON.stringify(cut)}`);
    }
  }
});

test('bytes is never less than what is sent', () => {
  for (const text of ['', 'abc', '\u00e4', '\u20ac', '\u{1f600}', '\ud800']) assert.ok(bytes(text) >= Buffer.byteLength(text));
  assert.equal(bytes('a\u00e4\u20ac'), 6);
});
