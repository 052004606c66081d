// Incomplete answers of the detectors.

import { list, object } from './read.ts';

/** Returns why an answer is incomplete; empty if it is complete. */
export function incompleteReason(value: unknown): string {
  const v = object(value);
  const parts = list(v.unanswered).length;
  if (parts > 0) {
    const which = parts === 1 ? 'one partition' : `${parts} partitions`;
    return `no detector answers for ${which} of the telemetry, so its apps are missing here for some seconds`;
  }
  return v.truncated === true ? 'too long for one answer: the oldest entries are left out' : '';
}
