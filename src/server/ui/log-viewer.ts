import { ApiError } from '../../shared/errors.ts';
import type { LogOutline, LogView } from '../../shared/records/log.ts';
import { groupOf, markClasses, piecesOf, styleOf, type Piece } from './browser/log-text.ts';
import { html, type Html } from './html.ts';
import type { OpenVisit } from './site.ts';
import type { LoggedPath } from './visit-api.ts';

const pageLines = 500;
/** The viewer opens so many lines above the first line that reports a failure. */
const linesAbove = 8;

/** A part of a log with a heading. */
export interface LogStep {
  name: string;
  state: string;
  /** Its first line. null if it has none. */
  line: number | null;
  heading: Html;
}

interface LogOptions {
  address: string;
  /** A title above the log, with a download link. Undefined if the page already has both. */
  title?: string;
  steps?: readonly LogStep[];
  /** True if the log is to begin at the first line that reports a failure. */
  hasFailed?: boolean;
}

export function downloadLink(address: string): Html {
  return html`<a class="button quiet" href="/ui/data${address}/log.txt" download="log.txt">Download log</a>`;
}

export async function linesIn(visit: OpenVisit, record: LoggedPath): Promise<number> {
  const { total } = await visit.api.get(`${record}/log/view`, { query: { from: -1, limit: 1 } });
  return total;
}

/**
 * `record` is the API path of the log's record. Without scripts, the page shows some lines and links to others.
 * `?from=LINE` selects a page. With scripts, it becomes the viewer (browser/log-viewer.ts).
 */
export async function logPart(
  visit: OpenVisit,
  record: LoggedPath,
  { address, title, steps = [], hasFailed = false }: LogOptions,
): Promise<Html> {
  const asked = Number.parseInt(visit.queryText('from'), 10);
  const viewFrom = (from: number): Promise<LogView> =>
    visit.api.get(`${record}/log/view`, { query: { from, limit: pageLines } });
  const failed = hasFailed ? steps.find(({ state }) => state === 'failed') : undefined;
  const begun = failed?.line ?? 1;
  const outline = await outlineOf(visit, record, begun);
  const failure = hasFailed ? outline.failure : null;
  const page = Number.isSafeInteger(asked) && asked > 0 ? await viewFrom(asked) : undefined;
  // The link to a step without output may point behind the last line.
  const isPage = page !== undefined && page.lines.length > 0;
  const atFailure = failure !== null && !page ? await viewFrom(Math.max(begun, failure - linesAbove)) : undefined;
  const view = isPage ? page : (atFailure ?? (await endOf(viewFrom)));
  const parts = partsOf(view.total, steps);
  const groups = endedIn(parts, outline).filter(
    ([head, last]) => !(failure !== null && head < failure && failure <= last),
  );
  const folds = isPage ? [] : groups;
  return html`<section class="log-part" aria-label="${title ?? 'Log'}">
    ${
      title !== undefined &&
      html`<div class="title">
        <h2>${title}</h2>
        ${downloadLink(address)}
      </div>`
    }
    <div
      class="log"
      data-log="/ui/data${address}/log"
      data-total="${view.total}"
      data-groups="${groups.flat().join(' ')}"
      ${view.complete && !hasFailed && html`data-over`}
      ${failure !== null && html`data-failure="${failure}"`}
      ${hasFailed && !outline.complete && html`data-seek="${begun}"`}
    >
      <div class="log-body">
        <div
          class="log-static ${!isPage && !atFailure && 'log-ended'}"
          role="region"
          aria-label="Log as text"
          tabindex="0"
        >
          <div>
            ${pageLinks(visit, view)} ${stepsOf(view, parts, { folds, isPage, path: visit.path })}
            ${view.lines.length > 20 && pageLinks(visit, view)}
          </div>
        </div>
      </div>
    </div>
  </section>`;
}

/** Too many searches at once only leave the log unfolded. */
async function outlineOf(visit: OpenVisit, record: LoggedPath, from: number): Promise<LogOutline> {
  try {
    return await visit.api.get(`${record}/log/outline`, { query: { from } });
  } catch (error) {
    if (error instanceof ApiError && error.fields.generic?.includes('resource_temporary_unavailable'))
      return { groups: [], failure: null, complete: false };
    throw error;
  }
}

interface Part {
  step: LogStep | undefined;
  from: number;
  to: number;
}

/** The lines before the first step, and then those of each step. The last step includes what follows it. */
function partsOf(total: number, steps: readonly LogStep[]): Part[] {
  let next = total + 1;
  const parts = steps.toReversed().map((step): Part => {
    const from = Math.min(step.line ?? next, next);
    const to = next - 1;
    next = from;
    return { step, from, to };
  });
  return [{ step: undefined, from: 1, to: next - 1 }, ...parts.toReversed()];
}

/** A group ends with its step at the latest. */
function endedIn(parts: readonly Part[], { groups }: LogOutline): [head: number, last: number][] {
  return groups.flatMap((head, at): [number, number][] => {
    if (at % 2 === 1) return [];
    const end = parts.find(({ from, to }) => from <= head && head <= to)?.to ?? head;
    const last = Math.min(groups[at + 1] ?? head, end);
    return last > head ? [[head, last]] : [];
  });
}

/** A response may be too small for many very long lines. Fewer are requested until it includes the last line. */
async function endOf(viewFrom: (from: number) => Promise<LogView>): Promise<LogView> {
  for (let count = pageLines; ; count = Math.floor(count / 5)) {
    const view = await viewFrom(-count);
    if (count < 5 || view.from + view.lines.length > view.total) return view;
  }
}

function pageLinks({ path }: OpenVisit, { from, total, complete, lines }: LogView): Html {
  const last = from + lines.length - 1;
  if (total === 0) return html`<p class="log-pages">${complete ? 'Nothing was said.' : 'Nothing was said yet.'}</p>`;
  const link = (to: number, text: string): Html => html`<a href="${path}?from=${to}">${text}</a>`;
  return html`<p class="log-pages">
    Lines ${from} to ${last} of ${total}. ${from > 1 && link(Math.max(1, from - pageLines), 'Earlier lines')}
    ${from > 1 + pageLines && link(1, 'First lines')} ${last < total && link(last + 1, 'Later lines')}
    ${last < total && html`<a href="${path}">Last lines</a>`}
  </p>`;
}

interface Shown {
  folds: readonly (readonly [head: number, last: number])[];
  isPage: boolean;
  path: string;
}

function stepsOf(view: LogView, parts: readonly Part[], { folds, isPage, path }: Shown): Html[] {
  const lines = linesOf(view);
  const last = view.from + lines.length - 1;
  return parts.map(({ step, from, to }) => {
    const here = lines.slice(Math.max(0, from - view.from), Math.max(0, Math.min(to, last) + 1 - view.from));
    const content = inGroups(here, Math.max(from, view.from), folds);
    if (!step) return html`${content}`;
    const { heading, state, line } = step;
    if (here.length === 0) {
      const words = line === null ? heading : html`<a href="${path}?from=${line}#L${line}">${heading}</a>`;
      // The list of steps links to its line, which may not exist.
      return html`<h2 class="log-step" ${line !== null && html`id="L${line}"`}>${words}</h2>`;
    }
    return html`<details ${(isPage || state !== 'passed') && html`open`}>
      <summary class="log-step">${heading}</summary>
      ${content}
    </details>`;
  });
}

/** `first` is the number of the first line. */
function inGroups(lines: readonly Html[], first: number, folds: Shown['folds']): Html[] {
  const shown: Html[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const fold = folds.find(([head]) => head === first + at);
    if (!fold) {
      shown.push(lines[at] ?? html``);
      continue;
    }
    const end = fold[1] - first + 1;
    shown.push(
      html`<details>
        <summary>${lines[at] ?? ''}</summary>
        ${lines.slice(at + 1, end)}
      </details>`,
    );
    at = end - 1;
  }
  return shown;
}

export function linesOf({ style, lines }: Pick<LogView, 'style' | 'lines'>): Html[] {
  let before = styleOf(style === '' ? '0' : style);
  return lines.map(({ number, text, cut, mark }) => {
    const { pieces, after } = piecesOf(text, before);
    before = after;
    const group = groupOf(text);
    const content =
      typeof group === 'object'
        ? html`<strong>${group.opens}</strong>`
        : group === undefined && html`${pieces.map(pieceOf)}`;
    // The text is on one line of markup, because every space would be visible.
    return html`<div class="log-line ${markClasses[mark]}" id="L${number}">
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
