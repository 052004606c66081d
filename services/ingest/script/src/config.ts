// The settings in the script tag, and the id of the session.

import { MAX_NAME } from './event.ts';
import { read } from './guard.ts';
import { clip } from './text.ts';

export interface Config {
  /** URL that events are sent to. */
  endpoint: string;
  /** URL of this script, as it is in stacks. */
  script: string;
  app?: string | undefined;
  /** Version, deploy or commit of the page, as in CI results. */
  release?: string | undefined;
  token?: string | undefined;
  session: string;
}

const EVENTS = '/v1/events';
const SESSION = 'tocsin.session';

/** Reads the settings from the script tag. Returns undefined if there is none, because the endpoint is unknown. */
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

/** The tag of this script. document.currentScript is not set for a module or an injected script. */
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

/** Returns the id of the tab, or a new one for each page if sessionStorage is not available. */
function session(): string {
  const stored = read(() => sessionStorage.getItem(SESSION));
  if (stored && /^[0-9a-f]{16}$/.test(stored)) return stored;
  let id = '';
  const random = crypto.getRandomValues(new Uint8Array(8));
  for (let i = 0; i < random.length; i++) id += (random[i] as number).toString(16).padStart(2, '0');
  read(() => sessionStorage.setItem(SESSION, id));
  return id;
}
