// tocsin.js sends what happens in the page to ingest: errors, requests, actions, vitals. The page
// always works as it would without this script.

import { watchActions } from './actions.ts';
import { configure, type Config } from './config.ts';
import { watchConsole } from './console.ts';
import { watchErrors } from './errors.ts';
import { watchFetch } from './fetch.ts';
import { listen, run } from './guard.ts';
import { httpTransport } from './transport.ts';
import { watchMemory } from './memory.ts';
import { Reporter } from './report.ts';
import { Requests } from './request.ts';
import { watchSecurity } from './security.ts';
import { Sender } from './send.ts';
import { Stacks } from './stack.ts';
import { PageLoad } from './vitals.ts';
import { watchXHR } from './xhr.ts';

run(() => {
  const loaded = Symbol.for('tocsin.js');
  if (loaded in window) return;
  const config = configure();
  if (!config) return;
  Object.defineProperty(window, loaded, { value: true });
  start(config);
});

function start(config: Config): void {
  const warn = console.warn.bind(console); // before watchConsole replaces it
  const set = setTimeout;
  const clear = clearTimeout;
  const clock = {
    after(ms: number, f: () => void): () => void {
      const id = set(() => run(f), ms);
      return () => clear(id);
    },
    random: Math.random,
  };
  const sender = new Sender(httpTransport(config, warn), clock, (lost) => reporter.notice(lost));
  const reporter: Reporter = new Reporter(config, sender);
  const stacks = new Stacks(config.script);
  const forbidden = (): void => {
    sender.stop();
    warn(`tocsin.js: the Content-Security-Policy of this page lacks ${config.endpoint} in connect-src: nothing is sent`);
  };

  // Each is guarded by itself: if a browser lacks one feature, the others work.
  run(() => watchErrors(reporter, stacks));
  run(() => watchConsole(reporter, stacks));
  run(() => {
    const requests = new Requests(reporter, config);
    run(() => watchFetch(requests));
    run(() => watchXHR(requests));
  });
  run(() => watchActions(reporter));
  run(() => watchSecurity(reporter, config, forbidden));
  run(() => watchMemory(reporter));
  const load = run(() => new PageLoad(reporter));

  // On the window and not captured, so that it runs after all listeners on the document and those
  // of web-vitals.
  listen(
    window,
    'visibilitychange',
    () => {
      if (document.visibilityState !== 'hidden') return;
      load?.end();
      sender.leave(false);
    },
    false,
  );
  listen(
    window,
    'pagehide',
    () => {
      load?.end();
      sender.leave(true);
    },
    false,
  );
}
