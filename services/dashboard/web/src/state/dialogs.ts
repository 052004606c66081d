// The open dialog.

import { signal } from '@preact/signals';

import type { Alert } from '../core/alert.ts';

export type Dialog =
  | { readonly type: 'help' }
  | { readonly type: 'token'; readonly wrong: boolean; readonly done: (token: string | undefined) => void }
  /** A new silence, with the alert that it is offered for, if any. */
  | { readonly type: 'silence'; readonly about: Alert | undefined };

export const dialog = signal<Dialog | undefined>(undefined);

/** Asks the person for the token. Concurrent calls share one dialog and its answer. */
export function askToken(wrong: boolean): Promise<string | undefined> {
  pending ??= new Promise((resolve) => {
    dialog.value = {
      type: 'token',
      wrong,
      done: (token) => {
        pending = undefined;
        dialog.value = undefined;
        resolve(token);
      },
    };
  });
  return pending;
}

let pending: Promise<string | undefined> | undefined;
