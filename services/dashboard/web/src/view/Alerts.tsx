import { useEffect, useRef } from 'preact/hooks';

import { SEVERITIES, type Severity } from '../core/alert.ts';
import { EVERYTHING, isEverything } from '../core/filter.ts';
import { disconnectedTime } from '../core/source.ts';
import { MAX_ALERTS } from '../core/store.ts';
import { clock } from '../core/time.ts';
import { changeFilter, connection, counts, filter, loading, now, pause, paused, ready, rows, store, waiting } from '../state/app.ts';
import { set, settings } from '../state/settings.ts';
import { categoryName, Empty, Shape } from './bits.tsx';
import { MultiSelect } from './MultiSelect.tsx';
import { List } from './List.tsx';
import { RateChart } from './RateChart.tsx';

export function Alerts() {
  return (
    <>
      <Toolbar />
      <RateChart height={64} />
      <Disconnected />
      {rows.value.length > 0 ? <List rows={rows.value} /> : <NoAlerts />}
      <Footer />
    </>
  );
}

const WORST_FIRST: readonly Severity[] = [...SEVERITIES].reverse();

function Toolbar() {
  const wanted = filter.value;
  const totals = counts.value;
  const sorted = (all: Readonly<Record<string, number>>) => Object.entries(all).sort((a, b) => b[1] - a[1]);
  return (
    <div class="toolbar" role="search" aria-label="Filter alerts">
      <Search />
      <div class="group severities" role="group" aria-label="Severities">
        {WORST_FIRST.map((severity) => (
          <button
            key={severity}
            type="button"
            class="toggle"
            aria-pressed={wanted.severities.includes(severity)}
            title={`Only ${severity}`}
            onClick={() => changeFilter({ severities: toggled(wanted.severities, severity) })}
          >
            <Shape severity={severity} />
            <span class="word">{severity}</span> <span class="number">{totals.severities[severity] ?? 0}</span>
          </button>
        ))}
      </div>
      <MultiSelect
        name="Category"
        options={sorted(totals.categories).map(([value, count]) => ({ value, count, label: categoryName(value) }))}
        chosen={wanted.categories}
        onChange={(categories) => changeFilter({ categories })}
      />
      <MultiSelect
        name="App"
        options={sorted(totals.apps).map(([value, count]) => ({ value, count, label: value }))}
        chosen={wanted.apps}
        onChange={(apps) => changeFilter({ apps })}
      />
      <div class="group list-options" role="group" aria-label="List options">
        <button
          type="button"
          class="toggle"
          aria-pressed={wanted.current}
          title="Hide resolved, silenced and acknowledged alerts (c)"
          onClick={() => changeFilter({ current: !wanted.current })}
        >
          Open
        </button>
        <button
          type="button"
          class="toggle"
          aria-pressed={settings.value.group}
          title="Show repeats of an alert as one row (g)"
          onClick={() => set({ group: !settings.value.group })}
        >
          Group repeats
        </button>
      </div>
      <button
        type="button"
        class="toggle pause"
        aria-pressed={paused.value}
        title="Pause updates of the list (p)"
        onClick={() => pause(!paused.value)}
      >
        {paused.value ? 'Resume' : 'Pause'}
        {paused.value && <span class="number">{waiting.value > 0 ? `+${waiting.value}` : ''}</span>}
      </button>
      {!isEverything(wanted) && (
        <button type="button" class="plain-button" onClick={() => changeFilter(EVERYTHING)}>
          Show all
        </button>
      )}
    </div>
  );
}

function toggled<T>(all: readonly T[], one: T): T[] {
  return all.includes(one) ? all.filter((other) => other !== one) : [...all, one];
}

/** The search starts this long after the last key, in ms. */
const SEARCH_DELAY = 120;

function Search() {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  const { search } = filter.value;
  /** The last search that was typed. */
  const typed = useRef(search);
  useEffect(() => {
    // The address or a button may set another search. Typed text is never overwritten,
    // because this may run after the next key.
    const wanted = filter.peek().search;
    if (input.current === null || wanted === typed.current) return;
    typed.current = wanted;
    input.current.value = wanted;
  }, [search]);
  const later = (value: string) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      typed.current = value;
      changeFilter({ search: value });
    }, SEARCH_DELAY);
  };
  return (
    <input
      ref={input}
      id="search"
      type="search"
      class="search"
      placeholder="Search   /"
      aria-label="Search alerts. All words must match; a word after a minus must not."
      defaultValue={search}
      maxLength={500}
      autocomplete="off"
      spellcheck={false}
      onInput={(e) => later(e.currentTarget.value)}
      onKeyDown={(e) => {
        if (e.key === 'Escape') {
          e.currentTarget.value = '';
          later('');
          e.currentTarget.blur();
          e.preventDefault();
        } else if (e.key === 'Enter' || e.key === 'ArrowDown') {
          document.querySelector<HTMLElement>('.rows [role=row][tabindex="0"]')?.focus();
          e.preventDefault();
        }
      }}
    />
  );
}

/** The page reports a disconnection that is longer than this, in ms. */
const OFFLINE_AFTER = 3000;

/** Warns that the page may show old data. */
function Disconnected() {
  if (disconnectedTime(connection.value, now.value) < OFFLINE_AFTER) return null;
  return (
    <p class="banner" role="status">
      <Shape severity="warning" />
      <span>
        Disconnected since {clock(connection.value.since)}, reconnecting. The page shows the alerts up to then. Run{' '}
        <code>tocsin doctor</code> to find the cause.
      </span>
    </p>
  );
}

function NoAlerts() {
  if (!ready.value)
    return (
      <Empty
        title={
          disconnectedTime(connection.value, now.value) < OFFLINE_AFTER ? 'Reading alerts…' : 'Could not read alerts yet'
        }
      />
    );
  if (store().size > 0) {
    return (
      <Empty title="No alert matches">
        <p>
          None of the {store().size.toLocaleString('en')} loaded alerts matches the filter.{' '}
          <button type="button" class="link" onClick={() => changeFilter(EVERYTHING)}>
            Show all
          </button>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No alerts yet">
      <p>New alerts appear here. To try it, post a failed CI result:</p>
      <pre>tocsin ci --status failure --name test --ref main --commit abc123</pre>
    </Empty>
  );
}

function Footer() {
  const loaded = store();
  const shown = rows.value.length;
  const parts = [
    `${shown.toLocaleString('en')} ${shown === 1 ? 'row' : 'rows'} of ${loaded.size.toLocaleString('en')} alerts`,
  ];
  if (loaded.full)
    parts.push(
      `${MAX_ALERTS.toLocaleString('en')} is the limit of this page; tocsin tail shows older alerts`,
    );
  else if (loading.value && connection.value.transport !== 'none') parts.push('loading older alerts');
  return (
    <footer class="foot">
      <span>{parts.join(' · ')}</span>
      <span class="keys-hint">
        <kbd>j</kbd> <kbd>k</kbd> move · <kbd>Enter</kbd> open · <kbd>/</kbd> search · <kbd>p</kbd> pause · <kbd>?</kbd>{' '}
        keys
      </span>
    </footer>
  );
}
