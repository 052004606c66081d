// The list of alerts: a grid whose document has only the visible rows.

import {
  defaultRangeExtractor,
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from '@tanstack/virtual-core';
import { memo } from 'preact/compat';
import { useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';

import type { Row } from '../core/rows.ts';
import { find, open, opened } from '../state/app.ts';
import { focusedAlert } from '../state/keys.ts';
import { Age, categoryName, Name, SeverityName, Tag } from './bits.tsx';

/** The heights of a row, in px, as in the style sheet. */
const ROW_HEIGHT = 28;
const NARROW_ROW_HEIGHT = 54;
const narrow = matchMedia('(max-width: 760px)');

export function List({ rows }: { rows: readonly Row[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const height = useRowHeight();
  const [active, setActive] = useState('');
  /** The index of the active row; -1 if it is not in the list. */
  let activeIndex = rows.findIndex((row) => row.key === active);
  /** Of the last rendering, and whether the next one moves the focus. */
  const last = useRef({ activeIndex: 0, rows, focus: false });
  if (activeIndex < 0) activeIndex = Math.min(last.current.activeIndex, rows.length - 1);
  if (active === '') activeIndex = 0;
  last.current.activeIndex = activeIndex;

  const options = {
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    getItemKey: (index: number) => rows[index]?.key ?? index,
    overscan: 12,
    // The row with the focus stays in the document, even out of view.
    rangeExtractor: (range: Parameters<typeof defaultRangeExtractor>[0]) => {
      const seen = defaultRangeExtractor(range);
      return activeIndex < 0 || seen.includes(activeIndex) ? seen : [...seen, activeIndex].sort((a, b) => a - b);
    },
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw(undefined),
  };
  const [virtual] = useState(() => new Virtualizer<HTMLDivElement, HTMLDivElement>(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), [virtual]);
  useLayoutEffect(() => virtual._willUpdate());
  useLayoutEffect(() => virtual.measure(), [virtual, height]);

  // The visible rows stay in place when rows are added above them.
  useLayoutEffect(() => {
    const list = scroller.current;
    const previous = last.current.rows;
    last.current.rows = rows;
    if (list === null || previous === rows || list.scrollTop < height) return;
    const first = Math.floor(list.scrollTop / height);
    for (let i = first; i < Math.min(first + 20, previous.length); i++) {
      const key = (previous[i] as Row).key;
      const index = rows.findIndex((row) => row.key === key);
      if (index < 0) continue;
      if (index !== i) list.scrollTop += (index - i) * height;
      return;
    }
  }, [rows, height]);

  useLayoutEffect(() => {
    if (!last.current.focus) return;
    const row = scroller.current?.querySelector<HTMLElement>('[role=row][tabindex="0"]');
    row?.focus({ preventScroll: true });
    last.current.focus = false;
  });

  const shown = opened.value === '' ? undefined : find(opened.value);
  // The open alert may now be one of several in its row.
  const isOpen = ({ alert, alerts }: Row) =>
    shown !== undefined &&
    (alert.id === shown.id || (alerts > 1 && alert.app === shown.app && alert.key === shown.key));

  const move = (to: number) => {
    const index = Math.max(0, Math.min(rows.length - 1, to));
    const row = rows[index];
    if (row === undefined) return;
    last.current.focus = true;
    setActive(row.key);
    virtual.scrollToIndex(index, { align: 'auto' });
    if (opened.peek() !== '') open(row.alert.id, false);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / height) - 1);
    const steps: Record<string, number> = {
      ArrowDown: activeIndex + 1,
      j: activeIndex + 1,
      ArrowUp: activeIndex - 1,
      k: activeIndex - 1,
      PageDown: activeIndex + page,
      PageUp: activeIndex - page,
      Home: 0,
      End: rows.length - 1,
    };
    const to = steps[event.key];
    if (to !== undefined) move(to);
    else if (event.key === 'Enter' || event.key === ' ') open(rows[activeIndex]?.alert.id ?? '', true);
    else return;
    event.preventDefault();
  };

  return (
    <div
      class="grid"
      role="grid"
      aria-label="Alerts, newest first"
      aria-rowcount={rows.length + 1}
      onKeyDown={onKeyDown}
    >
      <div role="row" class="row head" aria-rowindex={1}>
        <span role="columnheader">Severity</span>
        <span role="columnheader" class="right">
          Age
        </span>
        <span role="columnheader">Category</span>
        <span role="columnheader">App</span>
        <span role="columnheader">Alert</span>
        <span role="columnheader" class="right">
          Count
        </span>
      </div>
      <div role="rowgroup" class="rows" ref={scroller}>
        <div role="presentation" class="all" style={{ height: `${virtual.getTotalSize()}px` }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            return (
              <ListRow
                key={row.key}
                row={row}
                index={item.index}
                top={item.index * height}
                active={item.index === activeIndex}
                open={isOpen(row)}
                onFocus={setActive}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

function useRowHeight(): number {
  const [isNarrow, setIsNarrow] = useState(narrow.matches);
  useLayoutEffect(() => {
    const change = () => setIsNarrow(narrow.matches);
    narrow.addEventListener('change', change);
    return () => narrow.removeEventListener('change', change);
  }, []);
  return isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
}

/** Returns the detail without the title that it may begin with. */
function restOfDetail({ title, detail }: Row['alert']): string {
  return (detail.startsWith(title) ? detail.slice(title.length) : detail).slice(0, 200);
}

interface ListRowProps {
  readonly row: Row;
  readonly index: number;
  readonly top: number;
  readonly active: boolean;
  readonly open: boolean;
  readonly onFocus: (key: string) => void;
}

const ListRow = memo(function ListRow({ row, index, top, active, open: isOpen, onFocus }: ListRowProps) {
  const { alert } = row;
  return (
    <div
      role="row"
      class="row"
      aria-rowindex={index + 2}
      aria-selected={isOpen}
      tabIndex={active ? 0 : -1}
      data-id={alert.id}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => {
        onFocus(row.key);
        open(alert.id, false);
      }}
      onFocus={() => {
        focusedAlert.id = alert.id;
        onFocus(row.key);
      }}
    >
      <span role="gridcell" class="c-severity">
        <SeverityName severity={alert.severity} />
      </span>
      <span role="gridcell" class="c-age right">
        <Age time={alert.time} />
      </span>
      <span role="gridcell" class="c-category">
        {categoryName(alert.category)}
      </span>
      <span role="gridcell" class="c-app">
        <Name text={alert.app} />
      </span>
      <span role="gridcell" class="c-title">
        <bdi class={`title${row.resolved || row.suppressor !== undefined ? ' dim' : ''}${row.resolved ? ' resolved' : ''}`}>{alert.title}</bdi>
        <bdi class="detail">{restOfDetail(alert)}</bdi>
        <span class="marks">
          {row.resolved && <Tag kind="good">resolved</Tag>}
          {row.suppressor !== undefined && <Tag>{'silence' in row.suppressor ? 'silenced' : 'acknowledged'}</Tag>}
          {alert.revises !== '' && <Tag>revised</Tag>}
        </span>
      </span>
      <span role="gridcell" class="c-count right">
        {row.count > 1 ? `\u00d7${row.count.toLocaleString('en')}` : ''}
      </span>
    </div>
  );
}, sameProps);

function sameProps(a: ListRowProps, b: ListRowProps): boolean {
  return (
    a.row.alert === b.row.alert &&
    a.row.count === b.row.count &&
    a.row.resolved === b.row.resolved &&
    (a.row.suppressor === undefined) === (b.row.suppressor === undefined) &&
    a.index === b.index &&
    a.top === b.top &&
    a.active === b.active &&
    a.open === b.open
  );
}
