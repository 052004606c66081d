// The class of device that shows a page. The detector compares page loads on phones with
// those on phones.

import { read } from './guard.ts';

export type Device = 'mobile' | 'tablet' | 'desktop';

/** What a browser reports about its device. Unknown values are undefined. */
export interface Traits {
  /** navigator.userAgentData.mobile, in Chromium. */
  mobile?: boolean | undefined;
  /** Whether the main pointing device is a finger. */
  coarse?: boolean | undefined;
  /** The shorter side of the screen, equal in both orientations, in CSS pixels. */
  side?: number | undefined;
}

/** The widest phone, in either orientation: wider ones are small tablets, as in Android's sw600dp. */
export const PHONE = 600;

/** The class of a device, or undefined if the browser reports too little. */
export function classOf({ mobile, coarse, side }: Traits): Device | undefined {
  if (mobile) return 'mobile';
  if (coarse === undefined) return undefined;
  if (!coarse) return 'desktop'; // also with a mouse and a touch screen
  if (side === undefined || !(side > 0)) return undefined;
  // Chromium reports tablets of every size as not mobile.
  return side < PHONE && mobile === undefined ? 'mobile' : 'tablet';
}

/** The class of this device. */
export function device(): Device | undefined {
  return classOf({
    mobile: read(() => (navigator as { userAgentData?: { mobile?: boolean } }).userAgentData?.mobile),
    coarse: read(() => matchMedia('(pointer: coarse)').matches),
    side: read(() => Math.min(screen.width, screen.height)),
  });
}
