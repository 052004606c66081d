// A short name for an element that is the same at the next load: its id, its test id, its name,
// or else its position. It never has the text or the value of the element.

/** Reads elements: see dom.ts for why their properties are not read directly. */
export interface Reader<E> {
  tag(element: E): string;
  attribute(element: E, name: string): string | null;
  parent(element: E): E | null;
  /** Position among the siblings of the same tag, from 1, and their number. */
  position(element: E): [number, number];
}

const MAX_LEVELS = 4;
const MAX_NAME = 64;
const TEST_IDS = ['data-testid', 'data-test-id', 'data-test', 'data-cy'];

export function selector<E>(element: E, reader: Reader<E>): string {
  const own = byName(element, reader);
  if (own) return own;
  const steps = [step(element, reader)];
  let ancestor = reader.parent(element);
  for (let i = 1; ancestor && i < MAX_LEVELS; i++, ancestor = reader.parent(ancestor)) {
    const tag = reader.tag(ancestor);
    if (tag === 'body' || tag === 'html') break;
    const name = byName(ancestor, reader);
    steps.unshift(name ?? step(ancestor, reader));
    if (name) break;
  }
  return steps.join(' > ');
}

function byName<E>(element: E, reader: Reader<E>): string | undefined {
  const id = stable(reader.attribute(element, 'id'));
  if (id) return /^[a-z_][\w-]*$/i.test(id) ? '#' + id : attribute('id', id);
  for (let i = 0; i < TEST_IDS.length; i++) {
    const name = TEST_IDS[i] as string;
    const value = reader.attribute(element, name);
    if (value && value.length <= MAX_NAME) return attribute(name, value);
  }
  const name = stable(reader.attribute(element, 'name'));
  return name ? reader.tag(element) + attribute('name', name) : undefined;
}

function attribute(name: string, value: string): string {
  return `[${name}="${value.replace(/["\\]/g, '\\$&')}"]`;
}

/** The tag with at most two classes, and its position if it has siblings of the same kind. */
function step<E>(element: E, reader: Reader<E>): string {
  let text = reader.tag(element);
  const classes = (reader.attribute(element, 'class') ?? '').slice(0, 1000).split(/\s+/);
  for (let i = 0, n = 0; i < classes.length && n < 2; i++) {
    const name = stable(classes[i] as string);
    if (name && /^[a-z][\w-]*$/i.test(name) && ++n) text += '.' + name;
  }
  const [position, siblings] = reader.position(element);
  return siblings > 1 ? `${text}:nth-of-type(${position})` : text;
}

/** Returns the name, or undefined if it looks like one that a tool generates at each load or build. */
function stable(name: string | null): string | undefined {
  if (!name || name.length > MAX_NAME || /\d{4}|[:\u00ab\u00bb]/.test(name)) return undefined;
  return /(^|[-_])(?=[a-z]*\d)[a-z0-9]{5,}$/i.test(name) && /\d[a-z]+\d|[a-z]\d[a-z]/i.test(name) ? undefined : name;
}
