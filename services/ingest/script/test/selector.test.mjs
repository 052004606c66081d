import assert from 'node:assert/strict';
import { test } from 'node:test';

import { selector } from '../src/selector.ts';

const reader = {
  tag: (e) => e.tag,
  attribute: (e, name) => e.attributes?.[name] ?? null,
  parent: (e) => e.parent ?? null,
  position: (e) => e.position ?? [1, 1],
};
const element = (tag, attributes, parent, position) => ({ tag, attributes, parent, position });
const body = element('body');

for (const [name, target, want] of [
  ['an id', element('button', { id: 'save', class: 'x' }, body), '#save'],
  ['an odd id', element('button', { id: 'a "b"' }, body), '[id="a \\"b\\""]'],
  ['a test id', element('button', { 'data-testid': 'save-1234' }, body), '[data-testid="save-1234"]'],
  ['a name', element('input', { name: 'email', value: 'me@example.com' }, body), 'input[name="email"]'],
  ['classes', element('a', { class: ' btn  btn-primary big ' }, body), 'a.btn.btn-primary'],
  ['a path up to a name', element('span', {}, element('li', { class: 'row' }, element('ul', { id: 'list' }, body), [2, 3])), '#list > li.row:nth-of-type(2) > span'],
  ['a path up to the body', element('i', {}, element('p', {}, body)), 'p > i'],
  ['the body', body, 'body'],
  ['an id that React made', element('div', { id: ':r1f:' }, body), 'div'],
  ['an id that counts', element('div', { id: 'ember1234' }, body), 'div'],
  ['a class that a build made', element('div', { class: 'css-1q2w3e card Card_root__3Xk2p' }, body), 'div.card'],
  ['classes of Tailwind', element('div', { class: 'md:flex w-1/2 mt-4 text-red-500' }, body), 'div.mt-4.text-red-500'],
]) {
  test(name, () => assert.equal(selector(target, reader), want));
}

test('no more levels than needed', () => {
  let at = body;
  for (let i = 0; i < 50; i++) at = element('div', {}, at);
  assert.equal(selector(at, reader), 'div > div > div > div');
});
