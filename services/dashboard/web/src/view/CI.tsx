import type { Pipeline, Ref, Result } from '../core/ci.ts';
import { cut, oneLine } from '../core/text.ts';
import { duration, full } from '../core/time.ts';
import { ci, opened } from '../state/app.ts';
import { Age, Empty, Name, Scroll } from './bits.tsx';

/** The longest summary that is shown, in UTF-16 units; the drawer shows all of it. */
const SUMMARY = 240;

export function CI() {
  if (ci.value.length === 0) {
    return (
      <Empty title="No CI results yet">
        <p>Post them from a pipeline:</p>
        <pre>tocsin ci --status success --name test --ref main --commit abc123</pre>
      </Empty>
    );
  }
  return (
    <Scroll>
      {ci.value.map((ref) => (
        <RefPanel key={ref.ref} of={ref} />
      ))}
    </Scroll>
  );
}

function RefPanel({ of }: { of: Ref }) {
  const good = of.pipelines.length - of.broken;
  return (
    <section class="panel ref" aria-label={`Ref ${oneLine(of.ref) || 'none'}`}>
      <div class="panel-head">
        <h2 class="code">
          <Name of={of.ref} empty="(no ref)" />
        </h2>
        <p class="muted">
          {of.broken > 0 && <span class="bad-text">{of.broken} failed</span>}
          {of.broken > 0 && good > 0 && ', '}
          {good > 0 && `${good} passed`} · <Age time={of.time} />
        </p>
      </div>
      <div class="table-wrap">
        <table class="ci">
          <thead>
            <tr>
              <th scope="col">Status</th>
              <th scope="col">Pipeline</th>
              <th scope="col">Commit</th>
              <th scope="col">Summary</th>
              <th scope="col" class="right">
                Took
              </th>
              <th scope="col" class="right">
                Age
              </th>
              <th scope="col">Previous</th>
            </tr>
          </thead>
          <tbody>
            {of.pipelines.map((p) => (
              <PipelineRow key={`${p.source} ${p.name}`} of={p} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function PipelineRow({ of }: { of: Pipeline }) {
  const r = of.latest;
  return (
    <tr class={r.status === 'success' ? '' : 'broken'}>
      <td data-label="Status">
        <Status of={r.status} />
      </td>
      <th scope="row">
        <button type="button" class="link strong" onClick={() => (opened.value = r.alert.id)}>
          <Name of={of.name} empty="(unnamed)" />
        </button>
        <span class="muted source">{of.source}</span>
      </th>
      <td class="code" data-label="Commit">
        <bdi title={r.commit}>{r.commit.slice(0, 9)}</bdi>
      </td>
      <td class="summary">
        <bdi>{cut(r.alert.detail, SUMMARY)}</bdi>
        {r.link !== undefined && (
          <>
            {' '}
            <a href={r.link} target="_blank" rel="noreferrer noopener">
              run
            </a>
          </>
        )}
      </td>
      <td class="right" data-label="Took">
        {r.duration > 0 ? duration(r.duration) : ''}
      </td>
      <td class="right" data-label="Age">
        <Age time={r.alert.time} />
      </td>
      <td class="before">
        {[...of.before].reverse().map((b) => (
          <Earlier key={b.alert.id} of={b} />
        ))}
      </td>
    </tr>
  );
}

function Earlier({ of }: { of: Result }) {
  return (
    <button
      type="button"
      class={`pip ${of.status}`}
      title={`${of.status}, ${of.commit.slice(0, 9)}, ${full(of.alert.time)}`}
      aria-label={`${of.status}, ${full(of.alert.time)}`}
      onClick={() => (opened.value = of.alert.id)}
    >
      {SIGNS[of.status] ?? '?'}
    </button>
  );
}

const SIGNS: Record<string, string> = { success: '✓', failure: '✕', error: '!' };

function Status({ of }: { of: string }) {
  return (
    <span class={`status ${of}`}>
      <span class="sign" aria-hidden="true">
        {SIGNS[of] ?? '?'}
      </span>
      {of === 'success' ? 'passed' : of === 'failure' ? 'failed' : of}
    </span>
  );
}
