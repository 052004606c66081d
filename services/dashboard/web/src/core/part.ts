// What an answer of the detectors lacks.

import { list, object } from './read.ts';

/** In words for people; empty when the answer is whole. */
export function lacking(value: unknown): string {
  const v = object(value);
  const parts = list(v.unanswered).length;
  if (parts > 0) {
    const which = parts === 1 ? 'one part' : `${parts} parts`;
    return `no detector answers for ${which} of the telemetry: what is known of the apps there is missing here, for some seconds`;
  }
  return v.truncated === true ? 'there is more than one answer holds: what is oldest is left out' : '';
}
