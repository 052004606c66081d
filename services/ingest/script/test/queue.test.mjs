import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Bucket } from '../src/limit.ts';
import { MAX_BYTES, MAX_EVENTS, Queue } from '../src/queue.ts';

const texts = (entries) => entries.map((entry) => entry.json);

test('first in, first out, within both bounds', () => {
  const queue = new Queue();
  for (const text of ['aaaa', 'bbbb', 'cccc']) assert.equal(queue.push(text), 0);
  assert.equal(queue.bytes, 15);
  assert.deepEqual(texts(queue.take(50, 14)), ['aaaa', 'bbbb']);
  assert.deepEqual(texts(queue.take(50, 4)), []);
  assert.deepEqual(texts(queue.take(1, 99)), ['cccc']);
  assert.equal(queue.bytes, 0);
});

test('the oldest go when it is full', () => {
  const queue = new Queue();
  let dropped = 0;
  for (let i = 0; i < MAX_EVENTS + 7; i++) dropped += queue.push(String(i));
  assert.equal(dropped, 7);
  const taken = queue.take(10, 1e6);
  assert.equal(taken[0].json, '7');
  for (let i = 0; i < 5; i++) queue.push('new');
  assert.equal(queue.putBack(taken), 5);
  assert.equal(queue.take(1, 1e6)[0].json, '12');
});

test('it is full by bytes, too', () => {
  const queue = new Queue();
  const text = 'x'.repeat(100 << 10);
  let dropped = 0;
  for (let i = 0; i < 8; i++) dropped += queue.push(text);
  assert.equal(dropped, 3);
  assert.ok(queue.bytes <= MAX_BYTES);
});

test('a bucket gives a burst, then so many a second', () => {
  const bucket = new Bucket(20, 50);
  const at = (ms, n) => Array.from({ length: n }, () => bucket.take(ms)).filter(Boolean).length;
  assert.equal(at(0, 1000), 50);
  assert.equal(at(50, 10), 1);
  assert.equal(at(1050, 100), 20);
  assert.equal(at(500, 10), 0, 'the clock was set back');
  assert.equal(at(60_000, 100), 50);
});
