// Small components that several views use.

import type { ComponentChildren, JSX } from 'preact';

import type { Severity } from '../core/alert.ts';
import { oneLine } from '../core/text.ts';
import { age, full } from '../core/time.ts';
import { now } from '../state/app.ts';

const SHAPES: Record<Severity, JSX.Element> = {
  error: <path d="M8 1l7 7-7 7-7-7zM7.200 4.500v4h1.600v-4zm0 5.200v1.700h1.600V9.700z" fill-rule="evenodd" />,
  warning: <path d="M8 1.500L15.200 14H.8zM7.200 6v4h1.600V6zm0 5v1.600h1.600V11z" fill-rule="evenodd" />,
  info: (
    <path
      d="M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zm0 1.600a4.400 4.400 0 1 0 0 8.800 4.400 4.400 0 0 0 0-8.800z"
      fill-rule="evenodd"
    />
  ),
};

/** The symbol of a severity, which can be recognised without its colour. */
export function Shape({ severity }: { severity: Severity }) {
  return (
    <svg class={`shape ${severity}`} viewBox="0 0 16 16" width="12" height="12" aria-hidden="true">
      {SHAPES[severity]}
    </svg>
  );
}

export function SeverityName({ severity }: { severity: Severity }) {
  return (
    <span class={`severity ${severity}`}>
      <Shape severity={severity} />
      {severity}
    </span>
  );
}

/** The age, with the time as a tooltip. */
export function Age({ time }: { time: number }) {
  return (
    <time dateTime={new Date(time).toISOString()} title={full(time)}>
      {age(time, now.value)}
    </time>
  );
}

/** A name from outside, cleaned for one line. */
export function Name({ text, empty = '' }: { text: string; empty?: string }) {
  return <bdi>{oneLine(text) || empty}</bdi>;
}

export function Tag({ children, kind = '' }: { children: ComponentChildren; kind?: string }) {
  return <span class={`tag ${kind}`}>{children}</span>;
}

/** A region that the keyboard can scroll. */
export function Scroll({ children }: { children: ComponentChildren }) {
  return (
    <div class="scroll" role="region" aria-label="Content" tabIndex={0}>
      {children}
    </div>
  );
}

/** Explains why a view is empty, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** Shows what could not be loaded, and why. */
export function Problem({ what, why }: { what: string; why: string }) {
  if (why === '') return null;
  return (
    <p class="problem">
      <Shape severity="warning" /> <span>{`${what}: ${oneLine(why)}`}</span>
    </p>
  );
}

export const CATEGORY_NAMES: Record<string, string> = {
  regression: 'regression',
  anomaly: 'anomaly',
  errors: 'errors',
  network_errors: 'network',
  ci: 'CI',
  noise: 'noise',
  threshold: 'threshold',
  security: 'security',
  user_frustration: 'frustration',
  kubernetes: 'Kubernetes',
};

export function categoryName(category: string): string {
  return Object.hasOwn(CATEGORY_NAMES, category) ? (CATEGORY_NAMES[category] as string) : category;
}
