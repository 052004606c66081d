import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FIRST_PAGE, History, PAGE } from '../src/core/history.ts';
import { alert, random } from './alerts.mjs';

/** A stream as the service has it. */
class Stream {
  constructor(name) {
    this.name = name;
    this.first = 1;
    this.alerts = [];
  }
  publish() {
    const seq = this.first + this.alerts.length;
    const a = alert(seq, { id: `${this.name}${seq}` });
    this.alerts.push(a);
    return a;
  }
  publishSome(n) {
    for (let i = 0; i < n; i++) this.publish();
    return this;
  }
  drop(n) {
    this.first += this.alerts.splice(0, n).length;
  }
  answer({ before = Number.POSITIVE_INFINITY, limit }) {
    const alerts = this.alerts
      .filter((a) => a.seq < before)
      .slice(-limit)
      .reverse();
    const empty = this.alerts.length === 0;
    return {
      alerts,
      count: alerts.length,
      lowest: Math.min(...alerts.map((a) => a.seq)),
      first: empty ? 0 : this.first,
      last: empty ? 0 : this.first + this.alerts.length - 1,
    };
  }
}

/** Asks until nothing is missing, and tells how often. */
function settle(history, stream) {
  let asked = 0;
  for (let request = history.next(); request !== undefined; request = history.next()) {
    history.page(request, stream.answer(request));
    if (++asked > 100) throw new Error('it never ends');
  }
  return asked;
}

const ids = (history) => history.store.all.map((a) => a.id);
const all = (stream) => stream.alerts.map((a) => a.id);

test('it reads the newest first, and then what was before', () => {
  const s = new Stream('a').publishSome(2500);
  const h = new History();
  const first = h.next();
  assert.deepEqual(first, { limit: FIRST_PAGE, known: 0 });
  h.page(first, s.answer(first));
  assert.equal(h.store.size, FIRST_PAGE);
  assert.equal(h.next().limit, PAGE);
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
  assert.equal(h.loading, false);
});

test('it holds so many and asks for no more', () => {
  const s = new Stream('a').publishSome(5000);
  const h = new History(1500);
  settle(h, s);
  assert.equal(h.store.size, 1500);
  for (let i = 0; i < 700; i++) h.live(s.publish());
  assert.equal(h.next(), undefined);
  assert.deepEqual(ids(h), all(s).slice(-1500));
});

test('an empty bus, and the first alert', () => {
  const s = new Stream('a');
  const h = new History();
  assert.equal(settle(h, s), 1);
  assert.equal(h.live(s.publish()).length, 1);
  assert.equal(h.next(), undefined);
});

test('what came while nothing was open is read, each once', () => {
  const s = new Stream('a').publishSome(10);
  const h = new History();
  settle(h, s);
  s.publishSome(3000); // nobody heard
  h.live(s.publish());
  assert.equal(h.loading, true);
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
});

test('nothing heard after a connection came back: looking finds it', () => {
  const s = new Stream('a').publishSome(10);
  const h = new History();
  settle(h, s);
  s.publishSome(5);
  assert.equal(h.next(), undefined);
  h.resync();
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
});

test('the oldest are dropped by the stream', () => {
  const s = new Stream('a').publishSome(3000);
  s.drop(2000);
  const h = new History();
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
  s.publishSome(50);
  s.drop(1000);
  h.live(s.publish());
  assert.ok(settle(h, s) < 5);
});

test('what is stored and can not be read is asked for once', () => {
  const s = new Stream('a').publishSome(400);
  const h = new History();
  const blind = { answer: (r) => ({ ...s.answer(r), alerts: s.answer(r).alerts.filter((a) => a.seq % 2 === 0) }) };
  assert.ok(settle(h, blind) < 5);
  assert.equal(h.store.size, 200);
});

for (const [name, before, after, heard] of [
  ['a shorter one', 500, 20, 0],
  ['an empty one', 500, 0, 0],
  ['one that grew longer', 500, 700, 0],
  ['one far longer', 500, 9000, 0],
  ['a shorter one, and it is heard before it is read', 500, 20, 3],
  ['a longer one, and it is heard before it is read', 500, 600, 3],
  ['one of the same length', 500, 500, 0],
]) {
  test(`the bus came back with another stream: ${name}`, () => {
    const old = new Stream('old').publishSome(before);
    const h = new History();
    settle(h, old);
    const s = new Stream('new').publishSome(after - heard);
    for (let i = 0; i < heard; i++) h.live(s.publish());
    h.resync();
    settle(h, s);
    assert.deepEqual(ids(h), all(s));
    assert.equal(h.epoch, 1);
    h.live(s.publish());
    settle(h, s);
    assert.deepEqual(ids(h), all(s));
  });
}

test('another stream that is heard while its first answer is on the way', () => {
  const h = new History();
  settle(h, new Stream('old').publishSome(500));
  const s = new Stream('new').publishSome(600);
  h.resync();
  const request = h.next();
  const answer = s.answer(request);
  h.live(s.publish());
  h.page(request, answer);
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
});

test('a replica that lags behind is no other stream', () => {
  const s = new Stream('a').publishSome(50);
  const h = new History();
  settle(h, s);
  const lagging = s.answer({ limit: PAGE });
  for (let i = 0; i < 3; i++) h.live(s.publish());
  h.resync();
  h.page(h.next(), lagging);
  settle(h, s);
  assert.equal(h.epoch, 0);
  assert.deepEqual(ids(h), all(s));
});

test('whatever is heard, lost, dropped and begun anew: in the end it is the stream', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const next = random(seed);
    let s = new Stream('a');
    const h = new History(400);
    let pending;
    for (let step = 0; step < 120; step++) {
      const dice = next();
      if (dice < 0.45) {
        for (let i = Math.floor(next() * 30); i > 0; i--) {
          const a = s.publish();
          if (dice < 0.3) h.live(a); // else nobody heard
        }
      } else if (dice < 0.6) {
        const request = h.next();
        pending = request && [request, s.answer(request)];
      } else if (dice < 0.85) {
        if (pending !== undefined) h.page(...pending); // late
        pending = undefined;
      } else if (dice < 0.95) s.drop(Math.floor(next() * 20));
      else if (dice < 0.97) {
        s = new Stream(`s${step}-`);
        pending = undefined; // a service that is gone answers nothing
      } else h.resync();
    }
    for (let i = 0; i < 2; i++) {
      h.resync();
      settle(h, s);
    }
    const held = ids(h);
    for (const id of all(s).slice(-400)) assert.ok(held.includes(id), `seed ${seed}: ${id} is missing`);
    assert.equal(new Set(held).size, held.length, `seed ${seed}: something is there twice`);
  }
});
