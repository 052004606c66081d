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
        <RefPanel key={ref.ref} group={ref} />
      ))}
    </Scroll>
  );
}

function RefPanel({ group }: { group: Ref }) {
  const passed = group.pipelines.length - group.failed;
  return (
    <section class="panel ref" aria-label={`Ref ${oneLine(group.ref) || 'none'}`}>
      <div class="panel-head">
        <h2 class="code">
          <Name text={group.ref} empty="(no ref)" />
        </h2>
        <p class="muted">
          {group.failed > 0 && <span class="bad-text">{group.failed} failed</span>}
          {group.failed > 0 && passed > 0 && ', '}
          {passed > 0 && `${passed} passed`} · <Age time={group.time} />
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
            {group.pipelines.map((p) => (
              <PipelineRow key={`${p.source} ${p.name}`} pipeline={p} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function PipelineRow({ pipeline }: { pipeline: Pipeline }) {
  const r = pipeline.latest;
  return (
    <tr class={r.status === 'success' ? '' : 'broken'}>
      <td data-label="Status">
        <Status status={r.status} />
      </td>
      <th scope="row">
        <button type="button" class="link strong" onClick={() => (opened.value = r.alert.id)}>
          <Name text={pipeline.name} empty="(unnamed)" />
        </button>
        <span class="muted source">{pipeline.source}</span>
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
      <td class="previous">
        {[...pipeline.previous].reverse().map((b) => (
          <Earlier key={b.alert.id} result={b} />
        ))}
      </td>
    </tr>
  );
}

function Earlier({ result }: { result: Result }) {
  return (
    <button
      type="button"
      class={`pip ${result.status}`}
      title={`${result.status}, ${result.commit.slice(0, 9)}, ${full(result.alert.time)}`}
      aria-label={`${result.status}, ${full(result.alert.time)}`}
      onClick={() => (opened.value = result.alert.id)}
    >
      {SIGNS[result.status] ?? '?'}
    </button>
  );
}

const SIGNS: Record<string, string> = { success: '✓', failure: '✕', error: '!' };

function Status({ status }: { status: string }) {
  return (
    <span class={`status ${status}`}>
      <span class="sign" aria-hidden="true">
        {SIGNS[status] ?? '?'}
      </span>
      {status === 'success' ? 'passed' : status === 'failure' ? 'failed' : status}
    </span>
  );
}
