// Which dialog is open.

import { signal } from '@preact/signals';

import type { Alert } from '../core/alert.ts';

export type Dialog =
  | { readonly type: 'help' }
  | { readonly type: 'token'; readonly wrong: boolean; readonly done: (token: string | undefined) => void }
  /** A new silence, with what it is offered for: an alert, or nothing in particular. */
  | { readonly type: 'silence'; readonly about: Alert | undefined };

export const dialog = signal<Dialog | undefined>(undefined);

/** Asks a person for the token. One question at a time: who asks meanwhile gets the same answer. */
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
