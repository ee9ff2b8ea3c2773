import { html, type Html } from './html.ts';
import type { PersonVisit } from './site.ts';

/** The log of a record, on its page. */

const mostShown = 64 * 1024;

interface LogAnswer {
  size: number;
  complete: boolean;
  text: string;
}

/** `record` is the record's path in the API, with its parameters as in the page's address. */
export async function logPart({ api }: PersonVisit, record: `/${string}`, address: string): Promise<Html> {
  const whole = await api.get<LogAnswer>(`${record}/log`, { query: { offset: 0, limit: 1 } });
  const offset = Math.max(0, whole.size - mostShown);
  const { text, size, complete } = await api.get<LogAnswer>(`${record}/log`, { query: { offset, limit: mostShown } });
  const shown = offset > 0 ? text.slice(text.indexOf('\n') + 1) : text;
  const nothing = complete ? 'It said nothing.' : 'It has said nothing yet.';
  return html`<section aria-labelledby="log-title">
    <div class="title">
      <h2 id="log-title">Log</h2>
      ${size > 0 && html`<a class="button quiet" href="/ui/data${address}/log.txt" download="log.txt">Download log</a>`}
    </div>
    <div id="log" data-live>
      ${offset > 0 && html`<p class="aside">The last ${mostShown / 1024} kB are shown.</p>`}
      ${shown === '' ? html`<p class="aside">${nothing}</p>` : html`<pre class="log" tabindex="0">${shown}</pre>`}
    </div>
  </section>`;
}
