// Reads properties of elements by the browser's own getters, because fields of a form hide the
// form's: in <form><input name="parentElement"></form>, parentElement is the input.

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

/** How many siblings are counted in each direction, at most. */
const MAX_SIBLINGS = 200;

export const dom: Reader<Element> = {
  tag: (element) => localName(element) as string,
  attribute: (element, name) => Reflect.apply(getAttribute, element, [name]),
  parent(element) {
    const parent = parentNode(element);
    return parent instanceof Element ? parent : null;
  },
  position(element) {
    const before = count(element, previous);
    return [before + 1, before + 1 + count(element, next)];
  },
};

/** Counts the siblings of the same tag in one direction. */
function count(element: Element, step: (element: Element) => unknown): number {
  const tag = localName(element);
  let n = 0;
  let sibling = step(element);
  for (let i = 0; sibling instanceof Element && i < MAX_SIBLINGS; i++, sibling = step(sibling)) {
    if (localName(sibling) === tag) n++;
  }
  return n;
}
