// Bounds texts by the bytes that they take in a request: JSON in UTF-8. It does not access the
// page.

/** Returns how many bytes a UTF-16 unit takes as JSON, at most: a lone surrogate is escaped. */
function cost(unit: number): number {
  if (unit < 0x20) return 6;
  if (unit === 0x22 || unit === 0x5c) return 2;
  if (unit < 0x80) return 1;
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 6 : 3;
}

/** Cuts a text to at most max bytes as JSON, with an ellipsis at the end. */
export function clip(text: string, max: number): string {
  if (text.length * 6 <= max) return text;
  let used = 0;
  let fits = 0; // how many units fit together with the ellipsis
  for (let i = 0; i < text.length; i++) {
    used += cost(text.charCodeAt(i));
    if (used > max) {
      if (fits > 0 && isHigh(text.charCodeAt(fits - 1))) fits--;
      return text.slice(0, fits) + '\u2026';
    }
    if (used + 3 <= max) fits = i + 1;
  }
  return text;
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** Returns how many bytes a text takes as UTF-8, at most. */
export function bytes(text: string): number {
  let n = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0x80) n += unit < 0x800 ? 1 : 2;
  }
  return n;
}
