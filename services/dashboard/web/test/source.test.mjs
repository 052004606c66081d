import assert from 'node:assert/strict';
import { test } from 'node:test';

import { disconnectedTime, Source } from '../src/core/source.ts';
import { random } from './alerts.mjs';

const session = { type: 'session', bus: { url: 'ws://127.0.0.1:7443', seed: 'SU' } };
const none = { type: 'session', bus: null };

// [time in ms, event, effects, transport after it]
for (const [name, steps] of [
  [
    'the websocket opens',
    [
      [1, 'start', 'read-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [20, 'ws-open', 'resync', 'websocket'],
    ],
  ],
  [
    'no websocket: the event stream, and the session is read again after a minute',
    [
      [1, 'start', 'read-session', 'none'],
      [10, none, 'open-sse', 'none'],
      [20, 'sse-open', 'resync', 'events'],
      [30_020, 'tick', 'resync', 'events'],
      [60_010, 'tick', 'read-session', 'events'],
      [60_020, session, 'open-ws', 'events'],
      [60_030, 'ws-open', 'close-sse resync', 'websocket'],
    ],
  ],
  [
    'the websocket closes: the event stream, then the websocket of a new session',
    [
      [1, 'start', 'read-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [20, 'ws-open', 'resync', 'websocket'],
      [1000, 'ws-closed', 'open-sse', 'none'],
      [1010, 'sse-open', 'resync', 'events'],
      [1250, 'tick', 'read-session', 'events'],
      [1260, session, 'open-ws', 'events'],
      [1270, 'ws-open', 'close-sse resync', 'websocket'],
      [1280, 'sse-closed', '', 'websocket'],
    ],
  ],
  [
    'nothing is reachable: retries with growing pauses',
    [
      [1, 'start', 'read-session', 'none'],
      [10, 'session-failed', 'open-sse', 'none'],
      [20, 'sse-closed', '', 'none'],
      [260, 'tick', 'read-session', 'none'],
      [261, 'session-failed', '', 'none'],
      [270, 'tick', 'open-sse', 'none'],
      [280, 'sse-closed', '', 'none'],
      [761, 'tick', 'read-session', 'none'],
      [765, session, 'open-ws', 'none'],
      [770, 'ws-open', 'resync', 'websocket'],
    ],
  ],
  [
    'the websocket does not open: the event stream meanwhile',
    [
      [1, 'start', 'read-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [5010, 'ws-closed', 'open-sse', 'none'],
      [5020, 'sse-open', 'resync', 'events'],
      [5260, 'tick', 'read-session', 'events'],
      [5270, session, 'open-ws', 'events'],
      [10_270, 'ws-closed', '', 'events'],
    ],
  ],
  [
    'the tab becomes visible again',
    [
      [1, 'start', 'read-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [20, 'ws-open', 'resync', 'websocket'],
      [90, 'wake', 'resync', 'websocket'],
    ],
  ],
]) {
  test(`Source: ${name}`, () => {
    const s = new Source();
    for (const [at, event, done, transport] of steps) {
      const effects = s.on(typeof event === 'string' ? { type: event } : event, at);
      assert.equal(effects.map((e) => e.type).join(' '), done, `at ${at}`);
      assert.equal(s.transport, transport, `at ${at}`);
      assert.equal(s.disconnectedSince > 0, transport === 'none', `at ${at}`);
    }
  });
}

test('Source: opens nothing twice and retries within seconds, for random events', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const next = random(seed);
    const s = new Source(next);
    let now = 1;
    const open = { ws: '', sse: '', reading: false };
    const take = (effects) => {
      for (const e of effects) {
        if (e.type === 'read-session') {
          assert.equal(open.reading, false, 'the session is read twice at once');
          open.reading = true;
        } else if (e.type === 'open-ws') {
          assert.equal(open.ws, '', 'two websockets at once');
          open.ws = 'opening';
        } else if (e.type === 'open-sse') {
          assert.equal(open.sse, '', 'two event streams at once');
          open.sse = 'opening';
        } else if (e.type === 'close-sse') open.sse = '';
      }
    };
    take(s.on({ type: 'start' }, now));
    for (let step = 0; step < 300; step++) {
      now += Math.floor(next() * 2000);
      const due = s.next();
      if (due > 0 && now >= due) take(s.on({ type: 'tick' }, now));
      const can = [{ type: 'wake' }];
      if (open.reading) can.push(session, none, { type: 'session-failed' });
      if (open.ws === 'opening') can.push({ type: 'ws-open' }, { type: 'ws-closed' });
      if (open.ws === 'open') can.push({ type: 'ws-closed' });
      if (open.sse === 'opening') can.push({ type: 'sse-open' }, { type: 'sse-closed' });
      if (open.sse === 'open') can.push({ type: 'sse-closed' });
      const event = can[Math.floor(next() * can.length)];
      if (event.type.startsWith('session')) open.reading = false;
      if (event.type === 'ws-open') open.ws = 'open';
      if (event.type === 'ws-closed') open.ws = '';
      if (event.type === 'sse-open') open.sse = 'open';
      if (event.type === 'sse-closed') open.sse = '';
      take(s.on(event, now));
      const transport = open.ws === 'open' ? 'websocket' : open.sse === 'open' ? 'events' : 'none';
      assert.equal(s.transport, transport, `seed ${seed}`);
      if (transport === 'none' && open.ws === '' && open.sse === '' && !open.reading) {
        assert.ok(s.next() > 0 && s.next() <= now + 6300, `seed ${seed}: no retry is due`);
      }
    }
  }
});

test('disconnectedTime: 0 while connected and before the first attempt has failed', () => {
  for (const [transport, since, now, want] of [
    ['none', 0, 50_000, 0],
    ['none', 10_000, 14_000, 4000],
    ['none', 10_000, 9000, 0],
    ['websocket', 0, 50_000, 0],
    ['events', 0, 50_000, 0],
  ]) {
    assert.equal(disconnectedTime({ transport, since }, now), want, `${transport} since ${since} at ${now}`);
  }
});
