import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FIRST_PAGE, History, PAGE } from '../src/core/history.ts';
import { alert, random } from './alerts.mjs';

/** The stream of alerts, as the service answers from it. */
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

/** Sends requests until nothing is missing, and returns their number. */
function settle(history, stream) {
  let requests = 0;
  for (let request = history.next(); request !== undefined; request = history.next()) {
    history.addPage(request, stream.answer(request));
    if (++requests > 100) throw new Error('more than 100 requests');
  }
  return requests;
}

const ids = (history) => history.store.all.map((a) => a.id);
const all = (stream) => stream.alerts.map((a) => a.id);

test('History: reads the newest alerts first, then the earlier ones', () => {
  const s = new Stream('a').publishSome(2500);
  const h = new History();
  const first = h.next();
  assert.deepEqual(first, { limit: FIRST_PAGE, known: 0 });
  h.addPage(first, s.answer(first));
  assert.equal(h.store.size, FIRST_PAGE);
  assert.equal(h.next().limit, PAGE);
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
  assert.equal(h.loading, false);
});

test('History: keeps a limited number of alerts and requests no more', () => {
  const s = new Stream('a').publishSome(5000);
  const h = new History(1500);
  settle(h, s);
  assert.equal(h.store.size, 1500);
  for (let i = 0; i < 700; i++) h.addLive(s.publish());
  assert.equal(h.next(), undefined);
  assert.deepEqual(ids(h), all(s).slice(-1500));
});

test('History: an empty stream, then the first alert', () => {
  const s = new Stream('a');
  const h = new History();
  assert.equal(settle(h, s), 1);
  assert.equal(h.addLive(s.publish()).length, 1);
  assert.equal(h.next(), undefined);
});

test('History: alerts that were missed are read, each once', () => {
  const s = new Stream('a').publishSome(10);
  const h = new History();
  settle(h, s);
  s.publishSome(3000); // none arrives live
  h.addLive(s.publish());
  assert.equal(h.loading, true);
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
});

test('History: resync finds alerts that were missed while disconnected', () => {
  const s = new Stream('a').publishSome(10);
  const h = new History();
  settle(h, s);
  s.publishSome(5);
  assert.equal(h.next(), undefined);
  h.resync();
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
});

test('History: the stream drops its oldest alerts', () => {
  const s = new Stream('a').publishSome(3000);
  s.drop(2000);
  const h = new History();
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
  s.publishSome(50);
  s.drop(1000);
  h.addLive(s.publish());
  assert.ok(settle(h, s) < 5);
});

test('History: unreadable alerts are requested once', () => {
  const s = new Stream('a').publishSome(400);
  const h = new History();
  const unreadable = { answer: (r) => ({ ...s.answer(r), alerts: s.answer(r).alerts.filter((a) => a.seq % 2 === 0) }) };
  assert.ok(settle(h, unreadable) < 5);
  assert.equal(h.store.size, 200);
});

for (const [name, before, after, live] of [
  ['a shorter one', 500, 20, 0],
  ['an empty one', 500, 0, 0],
  ['one that grew longer', 500, 700, 0],
  ['one far longer', 500, 9000, 0],
  ['a shorter one, with live alerts before it is read', 500, 20, 3],
  ['a longer one, with live alerts before it is read', 500, 600, 3],
  ['one of the same length', 500, 500, 0],
]) {
  test(`History: the stream was recreated: ${name}`, () => {
    const old = new Stream('old').publishSome(before);
    const h = new History();
    settle(h, old);
    const s = new Stream('new').publishSome(after - live);
    for (let i = 0; i < live; i++) h.addLive(s.publish());
    h.resync();
    settle(h, s);
    assert.deepEqual(ids(h), all(s));
    assert.equal(h.recreations, 1);
    h.addLive(s.publish());
    settle(h, s);
    assert.deepEqual(ids(h), all(s));
  });
}

test('History: live alerts of a recreated stream arrive before its first answer', () => {
  const h = new History();
  settle(h, new Stream('old').publishSome(500));
  const s = new Stream('new').publishSome(600);
  h.resync();
  const request = h.next();
  const answer = s.answer(request);
  h.addLive(s.publish());
  h.addPage(request, answer);
  settle(h, s);
  assert.deepEqual(ids(h), all(s));
});

test('History: a replica that lags is not a recreated stream', () => {
  const s = new Stream('a').publishSome(50);
  const h = new History();
  settle(h, s);
  const lagging = s.answer({ limit: PAGE });
  for (let i = 0; i < 3; i++) h.addLive(s.publish());
  h.resync();
  h.addPage(h.next(), lagging);
  settle(h, s);
  assert.equal(h.recreations, 0);
  assert.deepEqual(ids(h), all(s));
});

test('History: has all alerts of the stream after any sequence of losses and restarts', () => {
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
          if (dice < 0.3) h.addLive(a); // else it is lost
        }
      } else if (dice < 0.6) {
        const request = h.next();
        pending = request && [request, s.answer(request)];
      } else if (dice < 0.85) {
        if (pending !== undefined) h.addPage(...pending); // late
        pending = undefined;
      } else if (dice < 0.95) s.drop(Math.floor(next() * 20));
      else if (dice < 0.97) {
        s = new Stream(`s${step}-`);
        pending = undefined; // the answer of a stopped service is lost
      } else h.resync();
    }
    for (let i = 0; i < 2; i++) {
      h.resync();
      settle(h, s);
    }
    const kept = ids(h);
    for (const id of all(s).slice(-400)) assert.ok(kept.includes(id), `seed ${seed}: ${id} is missing`);
    assert.equal(new Set(kept).size, kept.length, `seed ${seed}: an alert is there twice`);
  }
});
