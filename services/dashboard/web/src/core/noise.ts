// The rules of what is noise, as the detector has them.

import { lacking } from './part.ts';
import { line, number, object, objects, token } from './read.ts';

export interface Rule {
  readonly id: string;
  readonly app: string;
  /** applied, proposed or manual. */
  readonly state: string;
  readonly kind: string;
  readonly pattern: string;
  readonly confidence: number;
  /** How many events it kept from raising an alert. */
  readonly hidden: number;
  readonly example: string;
}

export interface Rules {
  readonly rules: readonly Rule[];
  readonly found: number;
  readonly lacks: string;
}

export function readRules(value: unknown): Rules {
  const v = object(value);
  return {
    rules: objects(v.rules).map((r) => ({
      id: token(r.rule_id),
      app: token(r.app),
      state: line(r.state, 20),
      kind: line(r.kind, 20),
      pattern: line(r.pattern, 1000),
      confidence: number(r.confidence),
      hidden: number(r.hidden),
      example: line(r.example, 1000),
    })),
    found: number(v.found),
    lacks: lacking(v),
  };
}
