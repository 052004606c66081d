// Reads properties of elements that a page may hide: <form><input name="parentElement"></form>
// has a parentElement of its own.

import type { Reader } from './selector.ts';

const getAttribute = Element.prototype.getAttribute;
const parentNode = getter(Node.prototype, 'parentNode');
const localName = getter(Element.prototype, 'localName');
const previous = getter(Element.prototype, 'previousElementSibling');
const next = getter(Element.prototype, 'nextElementSibling');

function getter(owner: object, name: string): (element: Element) => unknown {
  const { get } = Object.getOwnPropertyDescriptor(owner, name) as PropertyDescriptor & { get: () => unknown };
  return (element) => Reflect.apply(get, element, []);
}

/** How many siblings are counted. */
const MAX_SIBLINGS = 200;

export const dom: Reader<Element> = {
  tag: (element) => localName(element) as string,
  attribute: (element, name) => Reflect.apply(getAttribute, element, [name]),
  parent(element) {
    const parent = parentNode(element);
    return parent instanceof Element ? parent : null;
  },
  place(element) {
    const before = count(element, previous);
    return [before + 1, before + 1 + count(element, next)];
  },
};

function count(element: Element, step: (element: Element) => unknown): number {
  const tag = localName(element);
  let n = 0;
  let at = step(element);
  for (let i = 0; at instanceof Element && i < MAX_SIBLINGS; i++, at = step(at)) if (localName(at) === tag) n++;
  return n;
}
