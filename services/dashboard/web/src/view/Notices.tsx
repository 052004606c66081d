import type { Severity } from '../core/alert.ts';
import { MAX_NOTICES, type Notice } from '../core/notices.ts';
import { full } from '../core/time.ts';
import { notices, noticesError } from '../state/app.ts';
import { Age, Empty, Problem, Scroll, Shape } from './bits.tsx';

const LEVELS: Record<Notice['level'], Severity> = { info: 'info', warn: 'warning', error: 'error' };

export function Notices() {
  const all = notices.value;
  return (
    <Scroll>
      <section class="panel" aria-labelledby="notices-title">
        <div class="panel-head">
          <h2 id="notices-title">
            Agent messages <span class="muted">{all.length > 0 ? all.length : ''}</span>
          </h2>
          {all.length >= MAX_NOTICES && <p class="muted">the newest {MAX_NOTICES}</p>}
        </div>
        <Problem what="Agent messages" why={noticesError.value} />
        {all.length === 0 && noticesError.value === '' && (
          <Empty title="No messages yet">
            <p>Agents post messages with the tool notify. They are kept for 7 days.</p>
          </Empty>
        )}
        <ol class="notices">
          {all.map((n) => (
            <li key={`${n.seq} ${n.time} ${n.client}`} class={n.level}>
              <span class="notice-head">
                <Shape severity={LEVELS[n.level]} />
                <b>{n.level}</b>
                <bdi>{n.client}</bdi>
                <bdi class="muted">{n.context}</bdi>
                <span class="muted right" title={full(n.time)}>
                  <Age time={n.time} />
                </span>
              </span>
              <bdi class="message">{n.message}</bdi>
            </li>
          ))}
        </ol>
      </section>
    </Scroll>
  );
}
