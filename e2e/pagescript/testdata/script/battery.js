// What a page can see of what tocsin.js has its hands in. The answer must be
// the same with the script and without it.
async function battery(closedPort) {
  const seen = {};
  const events = [];
  addEventListener('error', (e) => events.push(`error ${e.message} ${e.error}`));
  addEventListener('unhandledrejection', (e) => events.push(`rejected ${e.reason}`));
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const attempt = async (name, f) => {
    try {
      seen[name] = String(await f());
    } catch (e) {
      seen[name] = `threw ${e && e.name}: ${e && e.message}`;
    }
  };
  const trap = () => {
    throw new Error('trapped');
  };
  let asked = 0;
  const getter = {
    get x() {
      asked++;
      return trap();
    },
  };
  const proxy = new Proxy({}, { get: trap, has: trap, ownKeys: trap, getPrototypeOf: trap, getOwnPropertyDescriptor: trap });
  const cyclic = { list: [] };
  cyclic.list.push(cyclic);

  await attempt('fetch', async () => (await fetch('/api/good')).text());
  await attempt('fetch 500', async () => (await fetch(new URL('/api/broken', location.href), { method: 'post' })).status);
  await attempt('fetch a request', async () => (await fetch(new Request('/api/good'))).ok);
  await attempt('fetch closed port', () => fetch(closedPort));
  await attempt('fetch opaque', async () => (await fetch(closedPort.replace('closed', ''), { mode: 'no-cors' })).type);
  await attempt('fetch no URL', () => fetch('http://'));
  await attempt('fetch nothing', () => fetch());
  await attempt('fetch a getter', () => fetch(getter));
  await attempt('fetch a trap', () => fetch({ toString: trap }));
  await attempt('fetch with a trap', () => fetch('/api/good', { get method() { return trap(); } }));
  await attempt('fetch of another', () => fetch.call({}, '/api/good'));
  await attempt('fetch without receiver', async () => (await (0, fetch)('/api/good')).status);
  await attempt('fetch data', async () => (await fetch('data:text/plain,hello')).text());
  await attempt('fetch aborted', () => {
    const leaving = new AbortController();
    setTimeout(() => leaving.abort(), 10);
    return fetch('/api/slow', { signal: leaving.signal });
  });
  await attempt('fetch aborted before', () => fetch('/api/slow', { signal: AbortSignal.abort('my reason') }));
  await attempt('fetch late', () => fetch('/api/slow', { signal: AbortSignal.timeout(10) }));
  await attempt('fetch promise', () => {
    const p = fetch('/api/good');
    return [p instanceof Promise, Object.getPrototypeOf(p) === Promise.prototype, Reflect.ownKeys(p).length].join();
  });
  fetch(closedPort); // this rejection is unhandled
  await attempt('stack of fetch', async function caller() {
    try {
      await fetch(closedPort);
    } catch (e) {
      return String(e.stack).replace(/\n.*\/tocsin\.js.*/g, ''); // not seen where the page's fetch is the browser's
    }
  });
  await attempt('fetch constructed', () => new fetch('/api/good'));

  const xhr = (method, path, change = () => {}) =>
    new Promise((done) => {
      const x = new XMLHttpRequest();
      const order = [];
      for (const type of ['loadstart', 'load', 'error', 'timeout', 'abort', 'loadend']) {
        x.addEventListener(type, (e) => order.push(e.type));
      }
      x.onloadend = () => done(`${x.status} ${x.responseText.length} ${order}`);
      x.open(method, path);
      change(x);
      x.send();
    });
  await attempt('xhr', () => xhr('GET', '/api/good'));
  await attempt('xhr 500', () => xhr('POST', '/api/broken'));
  await attempt('xhr closed port', () => xhr('GET', closedPort));
  await attempt('xhr late', () => xhr('GET', '/api/slow', (x) => (x.timeout = 10)));
  await attempt('xhr aborted', () => xhr('GET', '/api/slow', (x) => setTimeout(() => x.abort(), 10)));
  await attempt('xhr waits', () => {
    const x = new XMLHttpRequest();
    x.open('GET', '/api/broken', false);
    x.send();
    return x.status + x.responseText;
  });
  await attempt('xhr without waiting', () => {
    const x = new XMLHttpRequest();
    x.open('GET', closedPort, false);
    x.send();
  });
  await attempt('xhr twice', async () => {
    const x = new XMLHttpRequest();
    let answer = '';
    for (const path of ['/api/good', '/api/broken']) {
      x.open('GET', path);
      const done = new Promise((f) => (x.onload = f));
      x.send();
      await done;
      answer += x.status;
    }
    return answer;
  });
  await attempt('xhr unopened', () => new XMLHttpRequest().send());
  await attempt('xhr of nothing', () => new XMLHttpRequest().open());
  await attempt('xhr of another', () => XMLHttpRequest.prototype.send.call({}));

  await attempt('console', () => {
    const { error, warn } = console;
    error('detached');
    return [console.error('one', 2), warn(), console.error(cyclic, getter, proxy), console.error(new Array(1e6)), asked].join('|');
  });
  await attempt('console of the page within', () => {
    let within = 0;
    const nosy = new Proxy({}, { ownKeys: () => (within++ || fetch.name, ['a']) });
    console.error(nosy);
    return 'done';
  });

  for (const [owner, name] of [
    [window, 'fetch'],
    [console, 'error'],
    [console, 'warn'],
    [XMLHttpRequest.prototype, 'open'],
    [XMLHttpRequest.prototype, 'send'],
    [History.prototype, 'pushState'],
  ]) {
    const f = owner[name];
    const { writable, configurable, enumerable } = Object.getOwnPropertyDescriptor(owner, name) || {};
    seen['look of ' + name] = [typeof f, f.name, f.length, /native code|real|no console|said/.test(f), 'prototype' in f, Object.keys(f), writable, configurable, enumerable].join('|');
  }
  seen['names'] = Object.keys(window).filter((name) => /tocsin/i.test(name)).join();

  await attempt('pushState', () => {
    const n = history.length;
    const answer = history.pushState({ a: 1 }, '', '/elsewhere?x=1#y');
    return [answer, history.state.a, history.length - n, location.pathname].join();
  });
  await attempt('pushState of nothing', () => history.pushState());
  await attempt('pushState elsewhere', () => history.pushState(null, '', 'https://example.com/'));

  await attempt('click', () => {
    const button = document.querySelector('#buy');
    button.addEventListener('click', (e) => (events.push(`click ${e.cancelable} ${e.eventPhase}`), e.preventDefault()));
    return button.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
  });
  await attempt('submit', () => {
    const form = document.querySelector('#order');
    form.addEventListener('submit', (e) => (e.preventDefault(), events.push('submit')));
    Element.prototype.querySelector.call(form, '.send').click();
  });

  window.onerror = (message, source, line, column, error) => (events.push(`onerror ${message} ${error && error.name}`), false);
  setTimeout(() => {
    throw new TypeError('in a timer');
  });
  setTimeout(() => {
    throw proxy;
  });
  setTimeout(() => {
    throw null;
  });
  setTimeout(() => {
    throw cyclic;
  });
  Promise.reject(getter);
  Promise.reject(undefined);
  await wait(100);
  seen.events = events.sort().join('\n');
  let text = '';
  for (const name of Object.keys(seen)) text += `${name}: ${seen[name]}\n`;
  return text;
}
