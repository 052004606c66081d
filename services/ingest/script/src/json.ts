// A JSON encoder. JSON.stringify would call toJSON methods, which a page may add to every object
// and array.

export type Json = string | number | boolean | null | Json[] | JsonObject;

export interface JsonObject {
  [name: string]: Json | undefined;
}

const quote: (text: string) => string = JSON.stringify;

/** Returns a value as JSON. Members that are undefined are left out. */
export function encode(value: Json): string {
  switch (typeof value) {
    case 'string':
      return quote(value);
    case 'number':
      return isFinite(value) ? String(value) : 'null';
    case 'boolean':
      return value ? 'true' : 'false';
  }
  if (value === null) return 'null';
  let text = '';
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) text += (i ? ',' : '') + encode(value[i] as Json);
    return '[' + text + ']';
  }
  const names = Object.keys(value);
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string;
    const member = value[name];
    if (member !== undefined) text += (text ? ',' : '') + quote(name) + ':' + encode(member);
  }
  return '{' + text + '}';
}
