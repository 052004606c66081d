// The rate of alerts as stacked bars, with errors at the bottom.

import { useMemo, useState } from 'preact/hooks';
import type uPlot from 'uplot';
import { matcher } from '../core/filter.ts';
import { rate, type Span, SPANS } from '../core/rate.ts';
import { full } from '../core/time.ts';
import { filter, now, store, storeVersion } from '../state/app.ts';
import { set, settings } from '../state/settings.ts';
import { Shape } from './bits.tsx';
import { Chart, type Colours } from './Chart.tsx';

export function RateChart({ height, axes = false }: { height: number; axes?: boolean }) {
  const span = SPANS.find((s) => s.name === settings.value.span) ?? (SPANS[1] as Span);
  const [hovered, setHovered] = useState<number | undefined>(undefined);
  const [table, setTable] = useState(false);
  // Redrawn when a bucket ends, or when the alerts change.
  const bucket = Math.floor(now.value / span.step);
  const wanted = filter.value;
  const changed = storeVersion.value;
  const counted = useMemo(() => {
    const alerts = store();
    const matches = matcher(wanted);
    const shown = alerts.all.filter((a) => alerts.revision(a) === undefined && matches(a));
    return rate(shown, span, bucket * span.step);
  }, [span, bucket, wanted, changed]);
  const data = useMemo<uPlot.AlignedData>(() => {
    const [info, warning, error] = counted.counts;
    const warningAndError = warning.map((n, i) => n + (error[i] as number));
    return [counted.times.map((t) => t / 1000), warningAndError.map((n, i) => n + (info[i] as number)), warningAndError, error];
  }, [counted]);
  const sums = counted.counts.map((bars) => bars.reduce((a, b) => a + b, 0)) as [number, number, number];
  const summary = (n: readonly [number, number, number]) => `${n[2]} error, ${n[1]} warning, ${n[0]} info`;
  const countsAt = (i: number): [number, number, number] =>
    counted.counts.map((bars) => bars[i] ?? 0) as [number, number, number];

  return (
    <section class="rate" aria-label="Alert rate">
      <div class="rate-head">
        <h2>
          Alerts in the last {span.name}
        </h2>
        <p class="readout">
          {hovered === undefined || counted.times[hovered] === undefined
            ? (['error', 'warning', 'info'] as const).map((s, i) => (
                <span key={s} class="legend">
                  <Shape severity={s} /> {sums[2 - i]} <span class="word">{s}</span>
                </span>
              ))
            : `${full(counted.times[hovered] as number).slice(0, -3)}: ${summary(countsAt(hovered))}`}
        </p>
        <div class="group" role="group" aria-label="How far back">
          {SPANS.map((s) => (
            <button
              key={s.name}
              type="button"
              class="toggle"
              aria-pressed={s === span}
              onClick={() => set({ span: s.name })}
            >
              {s.name}
            </button>
          ))}
        </div>
        <button type="button" class="toggle" aria-pressed={table} onClick={() => setTable(!table)}>
          Table
        </button>
      </div>
      <Chart
        data={data}
        height={height}
        optionsKey={`${axes} ${span.name}`}
        label={`Alerts in the last ${span.name}: ${summary(sums)}. The button Table shows the numbers.`}
        options={(colour, plot) => barOptions(colour, plot, axes, span, setHovered)}
      />
      {table && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Alert rate as a table">
          <table>
            <caption class="visually-hidden">Alerts by time and severity, newest first; times without any are left out</caption>
            <thead>
              <tr>
                <th scope="col">From</th>
                <th scope="col" class="right">
                  Error
                </th>
                <th scope="col" class="right">
                  Warning
                </th>
                <th scope="col" class="right">
                  Info
                </th>
              </tr>
            </thead>
            <tbody>
              {counted.times
                .map((time, i) => ({ time, n: countsAt(i) }))
                .filter(({ n }) => n[0] + n[1] + n[2] > 0)
                .reverse()
                .map(({ time, n }) => (
                  <tr key={time}>
                    <th scope="row">{full(time)}</th>
                    <td class="right">{n[2]}</td>
                    <td class="right">{n[1]}</td>
                    <td class="right">{n[0]}</td>
                  </tr>
                ))}
            </tbody>
          </table>
          {counted.total === 0 && <p>None in this time.</p>}
        </div>
      )}
    </section>
  );
}

function barOptions(
  colour: Colours,
  plot: typeof uPlot,
  axes: boolean,
  span: Span,
  onCursor: (bucket: number | undefined) => void,
): Omit<uPlot.Options, 'width' | 'height'> {
  const paths = (plot.paths.bars as NonNullable<typeof plot.paths.bars>)({ size: [0.8, 24], align: 1 });
  const series = (label: string, name: string): uPlot.Series => ({
    label,
    paths,
    points: { show: false },
    fill: colour(name),
    width: 0,
  });
  return {
    legend: { show: false },
    padding: [4, 20, 0, axes ? 0 : 20],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    // A bar is drawn to the right of its time.
    scales: {
      x: { time: true, range: (_u, min, max) => [min, max + span.step / 1000] },
      y: { range: (_u, _min, max) => [0, Math.max(4, max * 1.05)] },
    },
    axes: [
      {
        stroke: colour('muted'),
        grid: { show: false },
        ticks: { show: false },
        size: 20,
        gap: 2,
        font: '11px system-ui',
        values: formatHours,
      },
      {
        show: axes,
        stroke: colour('muted'),
        grid: { stroke: colour('line'), width: 1 },
        ticks: { show: false },
        size: 36,
        font: '11px system-ui',
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
      },
    ],
    series: [{}, series('info', 'info-bar'), series('warning', 'warning-bar'), series('error', 'error-bar')],
    hooks: { setCursor: [(u) => onCursor(u.cursor.idx ?? undefined)] },
  };
}

const two = (n: number) => String(n).padStart(2, '0');

/** 24-hour times, with the date at the beginning of a day. */
export function formatHours(_u: uPlot, splits: number[]): string[] {
  return splits.map((s) => {
    const d = new Date(s * 1000);
    if (d.getHours() + d.getMinutes() + d.getSeconds() === 0) return `${d.getMonth() + 1}-${two(d.getDate())}`;
    const seconds = d.getSeconds() === 0 ? '' : `:${two(d.getSeconds())}`;
    return `${two(d.getHours())}:${two(d.getMinutes())}${seconds}`;
  });
}
