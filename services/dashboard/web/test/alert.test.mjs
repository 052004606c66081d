import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readAlert, statusName } from '../src/core/alert.ts';
import { cut, link, oneLine, visible } from '../src/core/text.ts';

const good = { id: 'x', severity: 'error', category: 'ci', title: 't', timestamp: '2026-01-28T14:30:00.000Z' };

test('readAlert: values that are not alerts are undefined', () => {
  assert.equal(readAlert(1, good)?.id, 'x');
  for (const [name, value, seq] of [
    ['null', null],
    ['a list', []],
    ['text', 'x'],
    ['no id', { ...good, id: '' }],
    ['an id that is not text', { ...good, id: 7 }],
    ['another severity', { ...good, severity: 'fatal' }],
    ['a severity that is a property of every object', { ...good, severity: 'constructor' }],
    ['no time', { ...good, timestamp: 'yesterday' }],
    ['sequence 0', good, 0],
    ['no sequence', good, Number.NaN],
  ]) {
    assert.equal(readAlert(seq ?? 1, value), undefined, name);
  }
});

test('readAlert: fields of another type are empty, and counts are at least 1', () => {
  const odd = { title: {}, detail: 7, context: [], count: -3, also_resolves: ['b', 7, ''], resolves: 'a', url: null };
  const a = readAlert(1, { ...good, ...odd });
  assert.deepEqual([a.title, a.detail, a.context, a.count, a.resolves, a.url], ['', '', {}, 1, ['a', 'b'], '']);
});

test('readAlert: an investigation, cleaned and cut', () => {
  const read = (investigation) => readAlert(1, { ...good, investigation })?.investigation;
  for (const value of [undefined, null, 'x', [], {}, { status: 7 }]) assert.equal(read(value), undefined);
  const full = read({
    session_id: 's1',
    status: 'timed_out',
    summary: `\u001b[31m${'x'.repeat(700)}`,
    confidence: 'likely',
    suggested_change: { file: 'a.go', description: 'd', from: 'model' },
    url: 'http://127.0.0.1:7490/x',
    reason: 'r',
  });
  assert.equal(full.summary.length, 600);
  assert.ok(full.summary.startsWith('␛[31mx'));
  assert.equal(statusName(full.status), 'timed out');
  assert.equal(statusName('completed'), 'completed');
  assert.deepEqual({ ...full, summary: '' }, { session: 's1', status: 'timed_out', summary: '', confidence: 'likely', change: { file: 'a.go', description: 'd' }, url: 'http://127.0.0.1:7490/x', reason: 'r' });
  assert.equal(read({ status: 'failed', suggested_change: { description: 'no file' } }).change, undefined);
});

test('text from outside', () => {
  for (const [name, got, want] of [
    ['clean text stays', visible('a <b> & "c" é 日本 👩‍👩‍👧'), 'a <b> & "c" é 日本 👩‍👩‍👧'],
    ['ANSI becomes visible', visible('\u001b[31mred\u0007'), '␛[31mred␇'],
    ['line breaks stay', visible('a\r\nb\tc'), 'a\nb\tc'],
    ['line breaks become visible in one line', oneLine('a\nb\tc'), 'a␊b␉c'],
    ['reordering characters are removed', visible('a\u202etxt.exe\u2066b\u2069\u200f'), 'atxt.exeb'],
    ['zero-width characters and tags are removed', visible('a\u200bb\ufeffc\u{e0041}d'), 'abcd'],
    ['joiners stay', visible('a\u200db\u200cc'), 'a\u200db\u200cc'],
    ['C1 is escaped', visible('\u009b31m'), '\\u009b31m'],
    ['DEL', visible('\u007f'), '␡'],
    ['cut', cut('abcdef', 4), 'abc…'],
    ['not cut', cut('abcd', 4), 'abcd'],
    ['not within a surrogate pair', cut('ab😀cd', 4), 'ab…'],
    ['a link', link('https://ci.example/run/123'), 'https://ci.example/run/123'],
    ['a script is not a link', link('javascript:alert(1)'), undefined],
    ['a script after a line feed', link('java\nscript:alert(1)'), undefined],
    ['a data URL', link('data:text/html,x'), undefined],
    ['a URL with a user name', link('https://github.com@evil.example/'), undefined],
    ['a path', link('/users/7'), undefined],
  ]) {
    assert.equal(got, want, name);
  }
});
