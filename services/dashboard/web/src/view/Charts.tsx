import { useEffect, useMemo, useState } from 'preact/hooks';
import type uPlot from 'uplot';

import { full } from '../core/time.ts';
import { type Curve, curves, measured, type Page } from '../core/vitals.ts';
import { opened, store, storeVersion, vitals } from '../state/app.ts';
import { Empty, Name, Problem, Scroll, SeverityName } from './bits.tsx';
import { Chart, type Colours } from './Chart.tsx';
import { formatHours, RateChart } from './RateChart.tsx';

export function Charts() {
  return (
    <Scroll>
      <RateChart height={180} axes />
      <Vitals />
    </Scroll>
  );
}

const pageKey = (p: Page) => `${p.app}\n${p.page}`;

function Vitals() {
  const { value, error } = vitals.loaded.value;
  const [chosen, setChosen] = useState('');
  useEffect(() => vitals.watch(), []);
  const pages = value?.pages ?? [];
  const page = pages.find((p) => pageKey(p) === chosen) ?? pages[0];
  const changed = storeVersion.value;
  const shown = useMemo(() => (page === undefined ? [] : curves(page, store().all)), [page, changed]);
  return (
    <section aria-labelledby="vitals-title" class="panel">
      <div class="panel-head">
        <h2 id="vitals-title">Web vitals</h2>
        {pages.length > 0 && (
          <label class="field-inline">
            Page
            <select value={page === undefined ? '' : pageKey(page)} onChange={(e) => setChosen(e.currentTarget.value)}>
              {pages.map((p) => (
                <option key={pageKey(p)} value={pageKey(p)}>
                  {`${p.app} ${p.page || '/'}`}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      <Problem what="Web vitals" why={error || (value?.incomplete ?? '')} />
      {page === undefined && error === '' && (
        <Empty title={value === undefined ? 'Loading web vitals…' : 'No page loads yet'}>
          {value !== undefined && <p>Pages send them with the script tocsin.js. Other programs post events of the kind vitals.</p>}
        </Empty>
      )}
      <div class="vitals">
        {shown.map((curve) => (
          <VitalChart key={curve.vital.key} curve={curve} />
        ))}
      </div>
    </section>
  );
}

function VitalChart({ curve }: { curve: Curve }) {
  const [table, setTable] = useState(false);
  const { vital, positions, values, baseline, loads, marks } = curve;
  const latest = values.at(-1) as number;
  const baselineText =
    baseline === undefined
      ? 'no baseline yet'
      : `baseline ${measured(baseline, vital)} (${loads} ${loads === 1 ? 'load' : 'loads'})`;
  const data = useMemo<uPlot.AlignedData>(
    () => [positions.map((t) => t / 1000), values, values.map(() => baseline ?? null)],
    [curve],
  );
  const alerts = marks.length === 0 ? '' : `, ${marks.length} ${marks.length === 1 ? 'alert' : 'alerts'}`;
  return (
    <section class="vital" aria-label={`${vital.name}, ${vital.description}`}>
      <div class="vital-head">
        <h3>
          {vital.name} <span class="description">{vital.description}</span>
        </h3>
        <p class="readout">
          <strong>{measured(latest, vital)}</strong> <span class="muted">{baselineText}</span>
        </p>
        <button type="button" class="toggle" aria-pressed={table} onClick={() => setTable(!table)}>
          Table
        </button>
      </div>
      <Chart
        data={data}
        height={150}
        optionsKey={`${vital.key} ${marks.map((m) => m.alert.id).join()} ${baseline}`}
        label={`${vital.name}: ${values.length} loads, the last ${measured(latest, vital)}, ${baselineText}${alerts}. The button Table shows the numbers.`}
        options={(colour) => lineOptions(colour, curve)}
      />
      {table && (
        <div class="table-box" tabIndex={0} role="region" aria-label={`${vital.name} as a table`}>
          <table>
            <caption class="visually-hidden">Loads and alerts, newest first</caption>
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col" class="right">
                  {vital.name}
                </th>
                <th scope="col">Alert</th>
              </tr>
            </thead>
            <tbody>
              {tableRows(curve).map((line, i) => (
                <tr key={i}>
                  <th scope="row">{full(line.time)}</th>
                  <td class="right">{line.value === undefined ? '' : measured(line.value, vital)}</td>
                  <td>
                    {line.mark !== undefined && (
                      <button type="button" class="link" onClick={() => (opened.value = line.mark?.alert.id ?? '')}>
                        <SeverityName severity={line.mark.alert.severity} /> <Name text={line.mark.alert.title} />
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Loads and alerts in one list, newest first. */
function tableRows(curve: Curve) {
  const all = [
    ...curve.times.map((time, i) => ({ time, value: curve.values[i], mark: undefined })),
    ...curve.marks.map((mark) => ({ time: mark.time, value: undefined, mark })),
  ];
  return all.sort((a, b) => b.time - a.time);
}

function lineOptions(colour: Colours, curve: Curve): Omit<uPlot.Options, 'width' | 'height'> {
  const { vital } = curve;
  return {
    legend: { show: false },
    padding: [14, 28, 0, 0],
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { time: true },
      y: { range: (_u, _min, max) => [0, Math.max(max * 1.15, vital.unit === '' ? 0.1 : 100)] },
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
        space: 70,
      },
      {
        stroke: colour('muted'),
        grid: { stroke: colour('line'), width: 1 },
        ticks: { show: false },
        size: 62,
        font: '11px system-ui',
        values: (_u, splits) => splits.map((v) => (vital.unit === '' ? v.toFixed(2) : `${v.toLocaleString('en')} ms`)),
      },
    ],
    series: [
      {},
      {
        label: vital.name,
        stroke: colour('accent'),
        width: 1.5,
        points: { show: true, size: 5, fill: colour('accent') },
      },
      { label: 'baseline', stroke: colour('muted'), width: 1, dash: [5, 4], points: { show: false } },
    ],
    hooks: { draw: [(u) => drawMarks(u, curve, colour)] },
  };
}

/** Draws an alert as a vertical line with the shape of its severity on top. */
function drawMarks(u: uPlot, curve: Curve, colour: Colours): void {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  const { left, top, height, width } = u.bbox;
  ctx.save();
  ctx.setLineDash([]);
  for (const { position, alert } of curve.marks) {
    const x = Math.round(u.valToPos(position / 1000, 'x', true));
    if (x < left - 1 || x > left + width + 1) continue;
    ctx.strokeStyle = ctx.fillStyle = colour(alert.severity);
    ctx.lineWidth = ratio;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    const r = 5 * ratio;
    const y = top - r;
    ctx.beginPath();
    if (alert.severity === 'error') {
      ctx.moveTo(x, y - r);
      ctx.lineTo(x + r, y);
      ctx.lineTo(x, y + r);
      ctx.lineTo(x - r, y);
    } else if (alert.severity === 'warning') {
      ctx.moveTo(x, y - r);
      ctx.lineTo(x + r, y + r);
      ctx.lineTo(x - r, y + r);
    } else ctx.arc(x, y, r * 0.8, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.restore();
}
