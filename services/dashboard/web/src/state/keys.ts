// The single-key shortcuts. List.tsx handles the keys that move within the list.

import { acknowledge, changeFilter, filter, find, go, opened, openSilenceDialog, pause, paused, VIEWS, view } from './app.ts';
import { dialog } from './dialogs.ts';
import { set, settings } from './settings.ts';

/** The shortcuts as the help shows them. */
export const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ['1 2 3 4 5 6', 'Alerts, CI, Charts, Silences & noise, Agent messages, Services'],
  ['j ↓', 'next alert'],
  ['k ↑', 'previous alert'],
  ['Home End', 'first, last alert'],
  ['PgUp PgDn', 'page up, page down'],
  ['Enter', 'open the alert'],
  ['Esc', 'close the drawer or dialog, clear the search'],
  ['/', 'search'],
  ['p', 'pause or resume updates'],
  ['g', 'group or ungroup repeats'],
  ['c', 'open alerts only'],
  ['a', 'acknowledge the alert'],
  ['s', 'silence by the alert’s key, category or app'],
  ['?', 'this help'],
];

/** The alert with the focus in the list, or the open one. */
export const focusedAlert = { id: '' };

function isTyping(element: EventTarget | null): boolean {
  return (
    element instanceof HTMLElement && element.matches('input:not([type=checkbox], [type=radio]), textarea, select')
  );
}

export function listenForKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.peek() !== undefined) return;
    if (event.key === 'Escape') {
      if (opened.peek() !== '') opened.value = '';
      return;
    }
    if (!settings.peek().keys || isTyping(event.target)) return;
    if (handleKey(event.key)) event.preventDefault();
  });
}

function handleKey(key: string): boolean {
  const page = VIEWS[Number(key) - 1];
  if (page !== undefined) {
    go(page);
    return true;
  }
  switch (key) {
    case '?':
      dialog.value = { type: 'help' };
      return true;
    case '/':
      go('alerts');
      // It exists once the view is drawn.
      requestAnimationFrame(() => document.querySelector<HTMLInputElement>('#search')?.focus());
      return true;
  }
  if (view.peek() !== 'alerts') return false;
  const alert = find(opened.peek() || focusedAlert.id);
  switch (key) {
    case 'p':
      pause(!paused.peek());
      return true;
    case 'g':
      set({ group: !settings.peek().group });
      return true;
    case 'c':
      changeFilter({ current: !filter.peek().current });
      return true;
    case 'a':
      if (alert !== undefined) void acknowledge(alert);
      return alert !== undefined;
    case 's':
      openSilenceDialog(alert);
      return true;
    case 'j':
    case 'k':
    case 'ArrowDown':
    case 'ArrowUp': {
      // Nothing has the focus: move it into the list.
      const row = document.querySelector<HTMLElement>('.rows [role=row][tabindex="0"]');
      if (row === null || row.contains(document.activeElement)) return false;
      row.focus();
      return true;
    }
  }
  return false;
}
