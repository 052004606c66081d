// The noise rules of the detector.

import { incompleteReason } from './incomplete.ts';
import { line, lines, moment, number, object, objects, token } from './read.ts';

export interface Rule {
  readonly id: string;
  readonly app: string;
  /** applied, proposed or manual. */
  readonly state: string;
  readonly kind: string;
  readonly pattern: string;
  readonly confidence: number;
  /** The number of events that it hid, or would hide if it is only proposed. */
  readonly hidden: number;
  /** The part of them in the last 10 minutes. */
  readonly recent: number;
  /** The number of alerts that it suppressed, or would suppress. */
  readonly alerts: number;
  /** Recent matches. */
  readonly examples: readonly string[];
  /** Since when it is applied or proposed, and its last match; 0 if unknown. */
  readonly since: number;
  readonly lastSeen: number;
}

/** A detected rule that was removed, and can be restored. */
export type Removed = Pick<Rule, 'id' | 'app' | 'kind' | 'pattern'>;

export interface Rules {
  readonly rules: readonly Rule[];
  readonly removed: readonly Removed[];
  /** The number of events that all rules hid. */
  readonly hidden: number;
  readonly found: number;
  readonly incomplete: string;
}

export function readRules(value: unknown): Rules {
  const v = object(value);
  return {
    rules: objects(v.rules).map((r) => {
      const proposed = r.state === 'proposed';
      const examples = lines(r.examples);
      return {
        id: token(r.rule_id),
        app: token(r.app),
        state: line(r.state, 20),
        kind: line(r.kind, 20),
        pattern: line(r.pattern, 1000),
        confidence: number(r.confidence),
        hidden: number(proposed ? r.would_hide : r.hidden),
        recent: number(proposed ? r.would_hide_last_10min : r.hidden_last_10min),
        alerts: number(proposed ? r.would_hold_alerts : r.alerts_held),
        examples: examples.length > 0 ? examples : [line(r.example, 1000)].filter((e) => e !== ''),
        since: moment(r.since),
        lastSeen: moment(r.last_seen),
      };
    }),
    removed: objects(v.removed).map((r) => ({
      id: token(r.rule_id),
      app: token(r.app),
      kind: line(r.kind, 20),
      pattern: line(r.pattern, 1000),
    })),
    hidden: number(v.hidden_total),
    found: number(v.found),
    incomplete: incompleteReason(v),
  };
}

const count = (n: number, what: string) => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

/** Describes the effect of a rule, for people who decide about it. */
export function effect(rule: Rule): readonly string[] {
  const proposed = rule.state === 'proposed';
  const effects: string[] = [];
  if (proposed) effects.push(`would hide ${rule.hidden.toLocaleString('en')}`);
  if (rule.recent > 0) effects.push(`${rule.recent.toLocaleString('en')} in 10 min`);
  const alerts = count(rule.alerts, 'alert');
  if (rule.alerts > 0) effects.push(proposed ? `would suppress ${alerts}` : `${alerts} suppressed`);
  return effects;
}
