// Text from outside. It is cleaned here even though ingest cleans it, because
// programs may publish on the bus without ingest.

const DIRTY =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/u;
const EACH = new RegExp(DIRTY, 'gu');

function replaced(c: string): string {
  const code = c.codePointAt(0) as number;
  if (c === '\n' || c === '\t') return c;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code); // the control pictures of Unicode
  if (code === 0x7f) return '\u2421';
  if (code < 0xa0 || c === '\u2028' || c === '\u2029') return `\\u${code.toString(16).padStart(4, '0')}`;
  return ''; // it only hides or reorders text
}

/** Cleans text: control characters get a visible form, reordering ones are removed. */
export function visible(text: string): string {
  return DIRTY.test(text) ? text.replaceAll('\r\n', '\n').replace(EACH, replaced) : text;
}

/** Cleans text for one line. */
export function oneLine(text: string): string {
  return visible(text).replaceAll('\n', '\u240a').replaceAll('\t', '\u2409');
}

/** Cuts text to a number of UTF-16 units, never within a surrogate pair. */
export function cut(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const code = text.charCodeAt(limit - 2);
  return `${text.slice(0, code >= 0xd800 && code < 0xdc00 ? limit - 2 : limit - 1)}…`;
}

/** The URL if it is safe to link to, or undefined. */
export function link(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text)) return undefined;
  try {
    const url = new URL(text);
    return url.username === '' && url.password === '' ? url.href : undefined;
  } catch {
    return undefined;
  }
}
