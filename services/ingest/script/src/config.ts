// The settings of the script tag, and what is known about the page.

import { MAX_NAME } from './event.ts';
import { read } from './guard.ts';
import { clip } from './text.ts';

export interface Config {
  /** URL that events are sent to. */
  endpoint: string;
  /** URL of this script, as it stands in stacks. */
  script: string;
  app?: string | undefined;
  /** Version, deploy or commit of the page: a CI result may have the same one. */
  release?: string | undefined;
  token?: string | undefined;
  session: string;
}

const EVENTS = '/v1/events';
const SESSION = 'tocsin.session';

/** Reads the script tag. If it cannot be found, there is no endpoint to send to. */
export function configure(): Config | undefined {
  const tag = scriptTag();
  if (!tag) return undefined;
  const endpoint = new URL(tag.getAttribute('data-endpoint') || EVENTS, tag.hasAttribute('data-endpoint') ? document.baseURI : tag.src);
  if (endpoint.pathname === '/') endpoint.pathname = EVENTS;
  return {
    endpoint: endpoint.href,
    script: tag.src,
    app: clip(tag.getAttribute('data-app') || '', MAX_NAME) || undefined,
    release: clip(tag.getAttribute('data-release') || '', MAX_NAME) || undefined,
    token: tag.getAttribute('data-token') || undefined,
    session: session(),
  };
}

/** The tag of this script: the browser does not name it for a module or an injected script. */
function scriptTag(): HTMLScriptElement | undefined {
  const current = document.currentScript;
  if (current instanceof HTMLScriptElement && current.src) return current;
  const tags = document.querySelectorAll<HTMLScriptElement>('script[src]');
  for (let i = tags.length - 1; i >= 0; i--) {
    const tag = tags[i] as HTMLScriptElement;
    if (read(() => new URL(tag.src).pathname.endsWith('/tocsin.js'))) return tag;
  }
  return undefined;
}

/** One id for each tab, or for each page if the page may not store one. */
function session(): string {
  const stored = read(() => sessionStorage.getItem(SESSION));
  if (stored && /^[0-9a-f]{16}$/.test(stored)) return stored;
  let id = '';
  const random = crypto.getRandomValues(new Uint8Array(8));
  for (let i = 0; i < random.length; i++) id += (random[i] as number).toString(16).padStart(2, '0');
  read(() => sessionStorage.setItem(SESSION, id));
  return id;
}
