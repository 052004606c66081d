import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Source } from '../src/core/source.ts';
import { random } from './alerts.mjs';

const session = { type: 'session', bus: { url: 'ws://127.0.0.1:7443', seed: 'SU' } };
const none = { type: 'session', bus: null };

// [at, event, what is done, the way there is then]
for (const [name, steps] of [
  [
    'the websocket, and that is all',
    [
      [1, 'start', 'ask-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [20, 'ws-open', 'resync', 'websocket'],
    ],
  ],
  [
    'no websocket: the event stream, and it is asked again in a minute',
    [
      [1, 'start', 'ask-session', 'none'],
      [10, none, 'open-sse', 'none'],
      [20, 'sse-open', 'resync', 'events'],
      [30_020, 'tick', 'resync', 'events'],
      [60_010, 'tick', 'ask-session', 'events'],
      [60_020, session, 'open-ws', 'events'],
      [60_030, 'ws-open', 'close-sse resync', 'websocket'],
    ],
  ],
  [
    'the websocket closes: the event stream, and back by a new session',
    [
      [1, 'start', 'ask-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [20, 'ws-open', 'resync', 'websocket'],
      [1000, 'ws-closed', 'open-sse', 'none'],
      [1010, 'sse-open', 'resync', 'events'],
      [1250, 'tick', 'ask-session', 'events'],
      [1260, session, 'open-ws', 'events'],
      [1270, 'ws-open', 'close-sse resync', 'websocket'],
      [1280, 'sse-closed', '', 'websocket'],
    ],
  ],
  [
    'everything is away, and tried at growing pauses',
    [
      [1, 'start', 'ask-session', 'none'],
      [10, 'session-failed', 'open-sse', 'none'],
      [20, 'sse-closed', '', 'none'],
      [260, 'tick', 'ask-session', 'none'],
      [261, 'session-failed', '', 'none'],
      [270, 'tick', 'open-sse', 'none'],
      [280, 'sse-closed', '', 'none'],
      [761, 'tick', 'ask-session', 'none'],
      [765, session, 'open-ws', 'none'],
      [770, 'ws-open', 'resync', 'websocket'],
    ],
  ],
  [
    'the websocket can not be had: the event stream meanwhile',
    [
      [1, 'start', 'ask-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [5010, 'ws-closed', 'open-sse', 'none'],
      [5020, 'sse-open', 'resync', 'events'],
      [5260, 'tick', 'ask-session', 'events'],
      [5270, session, 'open-ws', 'events'],
      [10_270, 'ws-closed', '', 'events'],
    ],
  ],
  [
    'somebody opens the tab again',
    [
      [1, 'start', 'ask-session', 'none'],
      [10, session, 'open-ws', 'none'],
      [20, 'ws-open', 'resync', 'websocket'],
      [90, 'wake', 'resync', 'websocket'],
    ],
  ],
]) {
  test(`Source: ${name}`, () => {
    const s = new Source();
    for (const [at, event, done, way] of steps) {
      const effects = s.on(typeof event === 'string' ? { type: event } : event, at);
      assert.equal(effects.map((e) => e.type).join(' '), done, `at ${at}`);
      assert.equal(s.way, way, `at ${at}`);
      assert.equal(s.awaySince > 0, way === 'none', `at ${at}`);
    }
  });
}

test('Source: whatever happens, nothing is opened twice and something is tried within seconds', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const next = random(seed);
    const s = new Source(next);
    let now = 1;
    const open = { ws: '', sse: '', asking: false };
    const take = (effects) => {
      for (const e of effects) {
        if (e.type === 'ask-session') {
          assert.equal(open.asking, false, 'it asks twice');
          open.asking = true;
        } else if (e.type === 'open-ws') {
          assert.equal(open.ws, '', 'two websockets');
          open.ws = 'opening';
        } else if (e.type === 'open-sse') {
          assert.equal(open.sse, '', 'two streams');
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
      if (open.asking) can.push(session, none, { type: 'session-failed' });
      if (open.ws === 'opening') can.push({ type: 'ws-open' }, { type: 'ws-closed' });
      if (open.ws === 'open') can.push({ type: 'ws-closed' });
      if (open.sse === 'opening') can.push({ type: 'sse-open' }, { type: 'sse-closed' });
      if (open.sse === 'open') can.push({ type: 'sse-closed' });
      const event = can[Math.floor(next() * can.length)];
      if (event.type.startsWith('session')) open.asking = false;
      if (event.type === 'ws-open') open.ws = 'open';
      if (event.type === 'ws-closed') open.ws = '';
      if (event.type === 'sse-open') open.sse = 'open';
      if (event.type === 'sse-closed') open.sse = '';
      take(s.on(event, now));
      const way = open.ws === 'open' ? 'websocket' : open.sse === 'open' ? 'events' : 'none';
      assert.equal(s.way, way, `seed ${seed}`);
      if (way === 'none' && open.ws === '' && open.sse === '' && !open.asking) {
        assert.ok(s.next() > 0 && s.next() <= now + 6300, `seed ${seed}: nothing is under way`);
      }
    }
  }
});
