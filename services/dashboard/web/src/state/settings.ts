// The settings of this browser.

import { effect, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';

interface Settings {
  readonly theme: Theme;
  /** Whether single-key shortcuts are on. */
  readonly keys: boolean;
  readonly group: boolean;
  /** The name of the span of the alert rate. */
  readonly span: string;
}

const KEY = 'tocsin-settings';
const DEFAULTS: Settings = { theme: 'system', keys: true, group: true, span: '1 h' };

function read(): Settings {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Record<keyof Settings, unknown>>;
    return {
      theme: kept.theme === 'light' || kept.theme === 'dark' ? kept.theme : DEFAULTS.theme,
      keys: typeof kept.keys === 'boolean' ? kept.keys : DEFAULTS.keys,
      group: typeof kept.group === 'boolean' ? kept.group : DEFAULTS.group,
      span: typeof kept.span === 'string' ? kept.span : DEFAULTS.span,
    };
  } catch {
    return DEFAULTS; // storage is off, or has another value
  }
}

export const settings = signal<Settings>(read());

export function set(change: Partial<Settings>): void {
  settings.value = { ...settings.value, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(settings.value));
  } catch {
    // the setting lasts until the page is closed
  }
}

const dark = matchMedia('(prefers-color-scheme: dark)');
export const isDark = signal(dark.matches);

effect(() => {
  const { theme } = settings.value;
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  isDark.value = theme === 'system' ? dark.matches : theme === 'dark';
});
dark.addEventListener('change', () => {
  if (settings.peek().theme === 'system') isDark.value = dark.matches;
});
