// What the script tag says, and what there is to know of the page.

import { MAX_NAME } from './event.ts';
import { read } from './guard.ts';
import { clip } from './text.ts';

export interface Config {
  /** Where events go. */
  endpoint: string;
  /** The URL of this script, as stacks show it. */
  script: string;
  app?: string | undefined;
  /** The version, deploy or commit of the page: what a CI result may be of as well. */
  release?: string | undefined;
  token?: string | undefined;
  session: string;
}

const EVENTS = '/v1/events';
const SESSION = 'tocsin.session';

/** Reads the script tag. Without one that can be found there is nowhere to send to. */
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

/** The tag that this script came from: for a module or an injected script the browser doesn't say. */
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

/** One id for each tab, and where the page may not store one, for each page. */
function session(): string {
  const stored = read(() => sessionStorage.getItem(SESSION));
  if (stored && /^[0-9a-f]{16}$/.test(stored)) return stored;
  let id = '';
  const random = crypto.getRandomValues(new Uint8Array(8));
  for (let i = 0; i < random.length; i++) id += (random[i] as number).toString(16).padStart(2, '0');
  read(() => sessionStorage.setItem(SESSION, id));
  return id;
}
