import { timeSpanText } from './browser/time-words.ts';
import type { RequestDetails, SaidBuild } from '../../shared/records/overview.ts';
import { attemptKey, buildName, newestOfSuites } from './build-rows.ts';
import { edgesOf, inOrderOfNeeds } from './graph.ts';
import { html, type Html } from './html.ts';
import { counted, table } from './parts.ts';
import { buildWord, lookOfBuild } from './states.ts';

/**
 * What a request spent its time on: a row for the fetch and for each suite, with its waiting, its preparation and its
 * steps. The table below has the same in words.
 */

interface Span {
  from: number;
  to: number;
}

interface Part extends Span {
  kind: 'waited' | 'prepared' | 'ran';
  look: string;
  title: string;
}

interface Row {
  name: string;
  suite: string;
  href: string | undefined;
  state: string;
  needs: readonly string[];
  parts: Part[];
}

/** The suites that ended last decide how long a request took. */
const mostRows = 40;
const [labelWidth, width, line, bar] = [260, 1100, 22, 12];
const chart = width - labelWidth;

export function waterfallPart(times: RequestDetails, builds: readonly SaidBuild[], path: string): Html | false {
  const from = Date.parse(times.asked_at);
  const to = from + Math.max(1, times.duration_ms);
  const all = rowsOf(times, builds, { from, to }, path);
  if (builds.length === 0) return false;
  const rows = all.length <= mostRows ? all : latest(all);
  const scale = (at: number): number => labelWidth + Math.round(((at - from) / (to - from)) * chart * 10) / 10;
  const height = (rows.length + 1) * line;
  return html`<section class="waterfall" aria-labelledby="times-title">
    <h2 id="times-title">Time</h2>
    ${rows.length < all.length && html`<p class="aside">The ${rows.length} of ${all.length} suites that ended last.</p>`}
    <div class="card waterfall-frame" role="group" aria-label="Drawing of the times" tabindex="0">
      <svg viewBox="0 0 ${width} ${height}" aria-hidden="true" focusable="false">
        ${ticks({ from, to }, scale, height)} ${needLines(rows, scale)}
        ${rows.map((row, at) => drawn(row, (at + 1) * line, scale))}
      </svg>
      <p class="legend aside">
        <span class="waited">waited</span> <span class="prepared">prepared</span> <span class="ran">ran, by step</span>
      </p>
    </div>
    <details id="times-table">
      <summary>The times as a table</summary>
      ${table('Times', ['What', 'State', 'Waited', 'Prepared', 'Ran', 'Needs'], rows.map(tableRow), { isOfFigures: true })}
    </details>
  </section>`;
}

function rowsOf(times: RequestDetails, builds: readonly SaidBuild[], { from, to }: Span, path: string): Row[] {
  const until = (at: string | null): number => (at === null ? to : Date.parse(at));
  const rows: Row[] = [];
  const { fetch_started_at: fetched } = times;
  if (fetched !== null && Date.parse(fetched) >= from) {
    const [start, end] = [Date.parse(fetched), until(times.fetch_finished_at)];
    const parts = [
      part('waited', 'none', 'waited', { from, to: start }),
      part('ran', 'good', 'fetched', { from: start, to: end }),
    ];
    rows.push({ name: 'Fetch', suite: '', href: '#fetch', state: 'fetched', needs: [], parts: parts.flat() });
  }
  const own = builds.filter(({ created_at: at }) => Date.parse(at) >= from);
  const attempts = Map.groupBy(own, attemptKey);
  for (const newest of inOrderOfNeeds(newestOfSuites(own))) {
    const inOrder = (attempts.get(attemptKey(newest)) ?? []).toSorted((a, b) => a.attempt - b.attempt);
    rows.push({
      name: buildName(newest),
      suite: newest.suite_name,
      href: `${path}/builds/${newest.id_str}`,
      state: buildWord(newest),
      needs: newest.needs,
      parts: inOrder.flatMap((build) => partsOf(build, until)),
    });
  }
  return rows;
}

function partsOf(build: SaidBuild, until: (at: string | null) => number): Part[] {
  const [created, end] = [Date.parse(build.created_at), until(build.finished_at)];
  if (build.started_at === null) return part('waited', 'none', 'waited', { from: created, to: end });
  const start = Date.parse(build.started_at);
  const look = lookOfBuild(build);
  const steps = build.steps.flatMap(({ name, started_at: begun, finished_at: over }) =>
    begun === null ? [] : part('ran', look, name, { from: Date.parse(begun), to: Math.min(end, until(over)) }),
  );
  const first = steps[0]?.from ?? start;
  return [
    ...part('waited', 'none', 'waited', { from: created, to: start }),
    ...part('prepared', 'none', 'prepared', { from: start, to: first }),
    ...(steps.length > 0 ? steps : part('ran', look, 'ran', { from: start, to: end })),
  ];
}

function part(kind: Part['kind'], look: string, what: string, span: Span): Part[] {
  if (span.to < span.from || (span.to === span.from && kind !== 'ran')) return [];
  return [{ kind, look, title: `${what}, ${timeSpanText(span.to - span.from)}`, ...span }];
}

const endOf = ({ parts }: Row): number => Math.max(0, ...parts.map(({ to }) => to));

function latest(rows: readonly Row[]): Row[] {
  const chosen = new Set(rows.toSorted((a, b) => endOf(b) - endOf(a)).slice(0, mostRows));
  return rows.filter((row) => chosen.has(row));
}

/** At most this many seconds, minutes or hours between two lines. */
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 604_800];

function ticks({ from, to }: Span, scale: (at: number) => number, height: number): Html[] {
  const seconds = steps.find((step) => (to - from) / (step * 1000) <= 8) ?? 604_800 * 4;
  const count = Math.floor((to - from) / (seconds * 1000));
  return Array.from({ length: Math.min(count, 10) + 1 }, (_, at) => {
    const x = scale(from + at * seconds * 1000);
    return html`<path class="tick" d="M${x} 14V${height}" /><text class="small" x="${x}" y="10"
        >${timeSpanText(at * seconds * 1000)}</text
      >`;
  });
}

/** From the end of a needed suite to the start of the one that needs it. */
function needLines(rows: readonly Row[], scale: (at: number) => number): Html {
  const place = new Map(rows.map((row, at) => [row, at]));
  const bySuite = Map.groupBy(rows, ({ suite }) => suite);
  const edges = edgesOf(
    rows.filter(({ suite }) => suite !== '').map(({ suite, needs }) => ({ suite_name: suite, needs })),
  );
  const paths = edges.flatMap(([from, to]) => {
    const needed = bySuite.get(from)?.toSorted((a, b) => endOf(b) - endOf(a))[0];
    if (!needed) return [];
    return (bySuite.get(to) ?? []).flatMap((row) => {
      const begun = row.parts.find(({ kind }) => kind !== 'waited');
      if (!begun) return [];
      const [x, y] = [scale(endOf(needed)), middleOf(place.get(needed) ?? 0)];
      return [`M${x} ${y}V${middleOf(place.get(row) ?? 0)}H${scale(begun.from)}`];
    });
  });
  return html`<path class="edges" d="${paths.join('')}" />`;
}

const middleOf = (at: number): number => (at + 1) * line + line / 2;

function drawn({ name, href, parts }: Row, y: number, scale: (at: number) => number): Html {
  const label = html`<text x="0" y="${y + 15}">${cut(name)}<title>${name}</title></text>`;
  return html`${href === undefined ? label : html`<a href="${href}" tabindex="-1">${label}</a>`}
  ${parts.map(({ kind, look, title, from, to }) => {
    const x = scale(from);
    return html`<rect
      class="${kind} ${look}"
      x="${x}"
      y="${y + (line - bar) / 2}"
      width="${Math.max(1, Math.round((scale(to) - x) * 10) / 10)}"
      height="${bar}"
      ><title>${name}: ${title}</title></rect
    >`;
  })}`;
}

function cut(name: string, longest = 36): string {
  const characters = Array.from(name);
  return characters.length <= longest ? name : `${characters.slice(0, longest - 1).join('')}…`;
}

function tableRow({ name, href, state, needs, parts }: Row): Html {
  const took = (kind: Part['kind']): string => {
    const some = parts.filter((one) => one.kind === kind);
    return some.length === 0 ? '–' : timeSpanText(some.reduce((sum, { from, to }) => sum + to - from, 0));
  };
  return html`<tr>
    <td>${href === undefined ? name : html`<a href="${href}">${name}</a>`}</td>
    <td>${state}</td>
    <td class="nowrap">${took('waited')}</td>
    <td class="nowrap">${took('prepared')}</td>
    <td class="nowrap">
      ${took('ran')}${parts.filter(({ kind }) => kind === 'ran').length > 1 && `, ${counted(parts.filter(({ kind }) => kind === 'ran').length, 'step')}`}
    </td>
    <td>${needs.join(', ')}</td>
  </tr>`;
}
