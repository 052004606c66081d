import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DELAY, MAX_BATCH_BYTES, RETRY_FIRST, RETRY_MOST, Sender } from '../src/send.ts';

/** A page of which the test is the browser: it moves the time and answers. */
function page() {
  const timers = [];
  const p = { now: 0, posts: [], beacons: [], takesBeacons: true };
  const clock = {
    after(ms, f) {
      const timer = { at: p.now + ms, f };
      timers.push(timer);
      return () => timers.splice(timers.indexOf(timer), timers.includes(timer) ? 1 : 0);
    },
    random: () => 1,
  };
  const transport = {
    post: (body) => new Promise((resolve, reject) => p.posts.push({ at: p.now, events: JSON.parse(body), body, resolve, reject })),
    beacon: (body) => p.takesBeacons && p.beacons.push({ events: JSON.parse(body), body }) > 0,
  };
  p.sender = new Sender(transport, clock, (lost) => JSON.stringify({ lost }));
  p.pass = async (ms) => {
    for (const end = p.now + ms; ; ) {
      timers.sort((a, b) => a.at - b.at);
      if (!timers.length || timers[0].at > end) {
        p.now = end;
        return;
      }
      const { at, f } = timers.shift();
      p.now = at;
      f();
      await settled();
    }
  };
  p.answer = async (outcome) => {
    const { resolve, reject } = p.posts[p.posts.length - 1];
    outcome instanceof Error ? reject(outcome) : resolve(outcome);
    await settled();
  };
  p.add = (n, size = 1) => {
    for (let i = 0; i < n; i++) p.sender.add(JSON.stringify('x'.repeat(size)));
  };
  return p;
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('the first event waits a second for others', async () => {
  const p = page();
  p.add(2);
  await p.pass(DELAY - 1);
  assert.equal(p.posts.length, 0);
  p.add(1);
  await p.pass(1);
  assert.deepEqual(p.posts[0].events, ['x', 'x', 'x']);
});

test('fifty events, or 48 KiB, wait for nothing', async () => {
  const p = page();
  p.add(50);
  await p.pass(0);
  assert.equal(p.posts[0].events.length, 50);
  await p.answer('done');
  p.add(4, 15 << 10);
  await p.pass(0);
  assert.equal(p.posts[1].events.length, 3);
  assert.ok(p.posts[1].body.length <= MAX_BATCH_BYTES);
});

test('one batch at a time', async () => {
  const p = page();
  p.add(120);
  await p.pass(5000);
  assert.equal(p.posts.length, 1);
  await p.answer('done');
  await p.pass(0);
  assert.equal(p.posts.length, 2);
  await p.answer('done');
  await p.pass(DELAY);
  assert.equal(p.posts[2].events.length, 20);
});

test('what failed is kept and tried again, later and later', async () => {
  const p = page();
  p.add(1);
  await p.pass(DELAY);
  let wait = RETRY_FIRST;
  for (let i = 1; i < 10; i++) {
    await p.answer(new Error('refused'));
    await p.pass(wait - 1);
    assert.equal(p.posts.length, i);
    await p.pass(1);
    assert.equal(p.posts.length, i + 1);
    wait = Math.min(RETRY_MOST, 2 * wait);
  }
  p.add(1);
  await p.answer('done');
  await p.pass(DELAY);
  assert.deepEqual(p.posts[10].events, ['x']);
});

test('ingest may say when', async () => {
  const p = page();
  p.add(1);
  await p.pass(DELAY);
  await p.answer(7000);
  await p.pass(6999);
  assert.equal(p.posts.length, 1);
  await p.pass(1);
  assert.equal(p.posts.length, 2);
});

test('dropped events are reported', async () => {
  const p = page();
  p.add(207);
  p.sender.lose(3);
  await p.pass(0);
  await p.answer('done');
  for (let i = 0; i < 9; i++) {
    await p.pass(DELAY);
    await p.answer('done');
  }
  const all = p.posts.flatMap((post) => post.events);
  assert.deepEqual(all.filter((event) => event.lost), [{ lost: 10 }, { lost: 1 }], 'the notice took the place of one');
  p.sender.lose(2);
  await p.pass(DELAY);
  assert.deepEqual(p.posts.at(-1).events, [{ lost: 2 }]);
});

test('a page that goes sends beacons, within what browsers take', async () => {
  const p = page();
  p.add(3);
  p.sender.leave(true);
  assert.deepEqual(p.beacons[0].events, ['x', 'x', 'x']);
  p.add(10, 15 << 10);
  p.sender.leave(true);
  const bytes = p.beacons.slice(1).reduce((n, { body }) => n + body.length, 0);
  assert.ok(bytes > 40 << 10 && bytes < 64 << 10, `${bytes} bytes`);
  await p.pass(0);
  assert.equal(p.posts.length, 1, 'the rest goes when the page goes on');
});

test('when the browser takes no beacon, it is fetched', async () => {
  const p = page();
  p.takesBeacons = false;
  p.add(3);
  p.sender.leave(true);
  assert.equal(p.posts[0].events.length, 3);
});

test('a hidden page knows of failures, and sends no beacon into the void', async () => {
  const p = page();
  p.add(1);
  await p.pass(DELAY);
  await p.answer(new Error('refused'));
  p.sender.leave(false);
  assert.equal(p.beacons.length, 0);
  assert.equal(p.posts.length, 2);
  await p.answer(new Error('refused'));
  p.sender.leave(true);
  assert.equal(p.beacons.length, 1);
});

test('once stopped, nothing is kept or sent', async () => {
  const p = page();
  p.add(1);
  p.sender.stop();
  p.add(60);
  p.sender.lose(1);
  p.sender.leave(true);
  await p.pass(60_000);
  assert.equal(p.posts.length + p.beacons.length, 0);
});
