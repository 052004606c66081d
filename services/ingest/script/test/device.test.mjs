import assert from 'node:assert/strict';
import { test } from 'node:test';

import { classOf, device, PHONE } from '../src/device.ts';

for (const [name, traits, want] of [
  ['a telephone with Chrome', { mobile: true, coarse: true, side: 412 }, 'mobile'],
  ['one that unfolds', { mobile: true, coarse: true, side: 700 }, 'mobile'],
  ['a tablet with Chrome', { mobile: false, coarse: true, side: 800 }, 'tablet'],
  ['a small one', { mobile: false, coarse: true, side: 560 }, 'tablet'],
  ['a desktop with Chrome', { mobile: false, coarse: false, side: 1080 }, 'desktop'],
  ['a notebook with a touch screen beside its pad', { mobile: false, coarse: false, side: 800 }, 'desktop'],
  ['a telephone with Safari or Firefox', { coarse: true, side: 390 }, 'mobile'],
  ['just a telephone', { coarse: true, side: PHONE - 1 }, 'mobile'],
  ['just a tablet', { coarse: true, side: PHONE }, 'tablet'],
  ['a desktop with Firefox in a small window', { coarse: false, side: 500 }, 'desktop'],
  ['a finger and no screen', { coarse: true }, undefined],
  ['a screen of nothing', { coarse: true, side: 0 }, undefined],
  ['a screen that is no number', { coarse: true, side: NaN }, undefined],
  ['no word on pointers', { mobile: false, side: 390 }, undefined],
  ['nothing known', {}, undefined],
]) {
  test(name, () => assert.equal(classOf(traits), want));
}

test('a browser is asked for what it has', (t) => {
  const browser = (userAgentData, matches, width, height) => {
    Object.defineProperty(globalThis, 'navigator', { value: { userAgentData }, configurable: true });
    globalThis.matchMedia = (query) => {
      assert.equal(query, '(pointer: coarse)');
      return { matches };
    };
    globalThis.screen = { width, height };
  };
  t.after(() => {
    delete globalThis.matchMedia;
    delete globalThis.screen;
  });
  browser({ mobile: true }, true, 412, 915);
  assert.equal(device(), 'mobile');
  browser(undefined, true, 844, 390); // lying
  assert.equal(device(), 'mobile');
  browser(undefined, true, 1180, 820);
  assert.equal(device(), 'tablet');
  browser({ mobile: false }, false, 1920, 1080);
  assert.equal(device(), 'desktop');
  globalThis.matchMedia = () => {
    throw new Error('not here');
  };
  assert.equal(device(), undefined);
});
