// On what class of device a page is shown. The detector compares the loads of
// telephones with those of telephones.

import { read } from './guard.ts';

export type Device = 'mobile' | 'tablet' | 'desktop';

/** What a browser says of its device. What it doesn't say is undefined. */
export interface Traits {
  /** navigator.userAgentData.mobile, which Chromium has. */
  mobile?: boolean | undefined;
  /** Whether what it is mostly pointed with is a finger. */
  coarse?: boolean | undefined;
  /** The shorter side of the screen, which is the same upright and lying, in CSS pixels. */
  side?: number | undefined;
}

/** The widest telephone, lying or not: beyond begin small tablets, as in Android's sw600dp. */
export const PHONE = 600;

/** The class, or undefined where a browser says too little to tell. */
export function classOf({ mobile, coarse, side }: Traits): Device | undefined {
  if (mobile) return 'mobile';
  if (coarse === undefined) return undefined;
  if (!coarse) return 'desktop'; // also one with a touch screen beside its mouse
  if (side === undefined || !(side > 0)) return undefined;
  // Chromium says of tablets that they are not mobile, whatever their size.
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
