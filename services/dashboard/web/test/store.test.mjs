import assert from 'node:assert/strict';
import { test } from 'node:test';

import { SequenceRanges } from '../src/core/ranges.ts';
import { Store } from '../src/core/store.ts';
import { alert, random } from './alerts.mjs';

const seqs = (store) => store.all.map((a) => a.seq);

test('Store: keeps the newest alerts, each once, by sequence', () => {
  const s = new Store(4);
  assert.equal(s.add([alert(3), alert(5)]).length, 2);
  assert.equal(s.add([alert(3)]).length, 0);
  assert.equal(s.add([alert(4), alert(2)]).length, 2);
  assert.deepEqual(seqs(s), [2, 3, 4, 5]);
  assert.equal(s.full, true);
  assert.deepEqual(s.add([alert(1)]), [], 'older than all that are kept');
  assert.deepEqual(
    s.add([alert(6), alert(7)]).map((a) => a.seq),
    [6, 7],
  );
  assert.deepEqual(seqs(s), [4, 5, 6, 7]);
  assert.equal(s.dropped, 3);
  assert.equal(s.getBySeq(5)?.id, 'a5');
  assert.equal(s.getBySeq(3), undefined);
  assert.equal(s.get('a3'), undefined);
});

test('Store: revisions and resolutions', () => {
  const s = new Store(3);
  const first = alert(1);
  s.add([first]);
  assert.equal(s.revision(first), undefined);
  s.add([alert(2, { revises: 'a1' }), alert(3, { resolves: 'a1', also_resolves: ['a2'] })]);
  assert.equal(s.revision(first)?.seq, 2);
  assert.equal(s.resolution(first)?.seq, 3);
  assert.equal(s.resolution(alert(2))?.seq, 3);
  s.add([alert(4, { revises: 'a1' })]);
  assert.equal(s.revision(first)?.seq, 4, 'the newest revision wins');
  s.add([alert(5), alert(6), alert(7)]);
  assert.equal(s.revision(first), undefined, 'a dropped alert has no revision');
  assert.equal(s.resolution(first), undefined);
});

test('Store: a revision without an investigation keeps the one that it replaces', () => {
  const started = { session_id: 's1', status: 'in_progress' };
  const ended = { session_id: 's1', status: 'completed', summary: 'the pool is too small', confidence: 'likely' };
  const of = (...more) => more.map((m, i) => alert(i + 1, m));
  for (const [name, alerts, want] of [
    ['none', of({}, { revises: 'a1' }), undefined],
    ['started', of({}, { revises: 'a1', investigation: started }), 'in_progress'],
    ['a new count after the end', of({}, { revises: 'a1', investigation: ended }, { revises: 'a1', count: 3 }), 'completed'],
    ['the end after a new count', of({}, { revises: 'a1', investigation: started }, { revises: 'a1' }, { revises: 'a1', investigation: ended }), 'completed'],
    ['of another alert', of({}, { revises: 'a9', investigation: ended }), undefined],
  ]) {
    for (const order of [alerts, alerts.toReversed()]) {
      const s = new Store();
      for (const a of order) s.add([a]);
      assert.equal(s.investigation(s.get('a1'))?.status, want, name);
      assert.equal(s.investigation(s.revision(s.get('a1')) ?? s.get('a1'))?.status, name === 'of another alert' ? undefined : want, name);
    }
  }
  const small = new Store(2);
  small.add(of({}, { revises: 'a1', investigation: ended }, {}, {}));
  assert.equal(small.investigation(alert(1)), undefined, 'a dropped revision has no investigation');
});

test('Store: a resolution that was read before its alert', () => {
  const s = new Store();
  s.add([alert(9, { resolves: 'a2' })]);
  s.add([alert(2)]);
  assert.equal(s.resolution(s.get('a2'))?.seq, 9);
});

test('SequenceRanges: finds the newest gap in any order of ranges', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const next = random(seed);
    const l = new SequenceRanges();
    const known = new Set();
    for (let i = 0; i < 30; i++) {
      const low = 1 + Math.floor(next() * 60);
      const high = low + Math.floor(next() * 6);
      l.add(low, high);
      for (let n = low; n <= high; n++) known.add(n);
      const floor = 1 + Math.floor(next() * 20);
      const last = Math.max(...known);
      assert.equal(l.last, last);
      let top = last;
      while (top >= floor && known.has(top)) top--;
      let bottom = top;
      while (bottom - 1 >= floor && !known.has(bottom - 1)) bottom--;
      assert.deepEqual(l.newestGap(floor), top < floor ? undefined : [bottom, top], `seed ${seed}`);
      for (let n = 1; n <= last; n++) assert.equal(l.has(n), known.has(n));
    }
  }
});
