import type { LogView } from '../../shared/records/log.ts';
import { groupOf, piecesOf, styleOf, type Piece } from './browser/log-text.ts';
import { html, type Html } from './html.ts';
import type { PersonVisit } from './site.ts';
import type { LoggedPath } from './visit-api.ts';

const pageLines = 500;

interface LogOptions {
  address: string;
  /** A title above the log, with a download link. Undefined if the page already has both. */
  title?: string;
}

export function downloadLink(address: string): Html {
  return html`<a class="button quiet" href="/ui/data${address}/log.txt" download="log.txt">Download log</a>`;
}

export async function linesIn(visit: PersonVisit, record: LoggedPath): Promise<number> {
  const { total } = await visit.api.get(`${record}/log/view`, { query: { from: -1, limit: 1 } });
  return total;
}

/**
 * `record` is the API path of the log's record. Without scripts, the page shows the last lines and links to earlier
 * lines. `?from=LINE` selects a page. With scripts, it becomes the viewer (browser/log-viewer.ts).
 */
export async function logPart(visit: PersonVisit, record: LoggedPath, { address, title }: LogOptions): Promise<Html> {
  const asked = Number.parseInt(visit.queryText('from'), 10);
  const viewFrom = (from: number): Promise<LogView> =>
    visit.api.get(`${record}/log/view`, { query: { from, limit: pageLines } });
  const page = Number.isSafeInteger(asked) && asked > 0 ? await viewFrom(asked) : undefined;
  // The link to a step without output may point behind the last line.
  const isPage = page !== undefined && page.lines.length > 0;
  const view = isPage ? page : await endOf(viewFrom);
  return html`<section class="log-part" aria-label="${title ?? 'Log'}">
    ${
      title !== undefined &&
      html`<div class="title">
        <h2>${title}</h2>
        ${downloadLink(address)}
      </div>`
    }
    <div class="log" data-log="/ui/data${address}/log" data-total="${view.total}">
      <div class="log-body">
        <div class="log-static ${!isPage && 'log-ended'}" role="region" aria-label="Log as text" tabindex="0">
          <div>${pageLinks(visit, view)} ${linesOf(view)} ${view.lines.length > 20 && pageLinks(visit, view)}</div>
        </div>
      </div>
    </div>
  </section>`;
}

/** A response may be too small for many very long lines. Fewer are requested until it includes the last line. */
async function endOf(viewFrom: (from: number) => Promise<LogView>): Promise<LogView> {
  for (let count = pageLines; ; count = Math.floor(count / 5)) {
    const view = await viewFrom(-count);
    if (count < 5 || view.from + view.lines.length > view.total) return view;
  }
}

function pageLinks({ path }: PersonVisit, { from, total, complete, lines }: LogView): Html {
  const last = from + lines.length - 1;
  if (total === 0) return html`<p class="log-pages">${complete ? 'Nothing was said.' : 'Nothing was said yet.'}</p>`;
  const link = (to: number, text: string): Html => html`<a href="${path}?from=${to}">${text}</a>`;
  return html`<p class="log-pages">
    Lines ${from} to ${last} of ${total}. ${from > 1 && link(Math.max(1, from - pageLines), 'Earlier lines')}
    ${from > 1 + pageLines && link(1, 'First lines')} ${last < total && link(last + 1, 'Later lines')}
    ${last < total && html`<a href="${path}">Last lines</a>`}
  </p>`;
}

function linesOf({ style, lines }: LogView): Html[] {
  let before = styleOf(style === '' ? '0' : style);
  return lines.map(({ number, text, cut }) => {
    const { pieces, after } = piecesOf(text, before);
    before = after;
    const group = groupOf(text);
    const content = typeof group === 'object' ? html`<strong>${group.opens}</strong>` : pieces.map(pieceOf);
    // The text is on one line of markup, because every space would be visible.
    return html`<div class="log-line" id="L${number}">
      <a class="log-number" href="#L${number}">${number}</a><span class="log-text">${content}${cut && ' …'}</span>
    </div>`;
  });
}

function pieceOf({ text, style, link }: Piece): Html {
  const { bold, faint, italic, underline, struck, colour } = style;
  const flags = Object.entries({ bold, faint, italic, underline, struck }).filter(([, isOn]) => isOn);
  const classes = flags.map(([name]) => `log-${name}`);
  // Other colours need inline styles, which the content security policy refuses.
  if (colour >= 0 && colour < 16 && style.ground < 0) classes.push(`log-c${colour}`);
  if (link !== undefined) {
    return html`<a class="${classes.join(' ')}" href="${link}" rel="noopener noreferrer nofollow">${text}</a>`;
  }
  return classes.length === 0 ? html`${text}` : html`<span class="${classes.join(' ')}">${text}</span>`;
}
