import { html, type Html } from './html.ts';
import type { Look } from './states.ts';

/**
 * Small plots, drawn as SVG on the server. A plot is one image with a sentence as its name. The exact numbers are in
 * the table behind it (`plotPart`), and in the title of each mark.
 */

export interface Point {
  /** What the mark stands for, such as `2026-11-19: 12 of 14 passed`. */
  title: string;
  /** null leaves a gap. */
  value: number | null;
  look?: Look;
}

const [width, height] = [240, 48];
/** A value above zero is always visible. */
const least = 2;

interface Axis {
  label: string;
  /** The value at the top. */
  most?: number;
}

/** A bar for each point, in columns of equal width. */
export function barPlot(points: readonly Point[], axis: Axis): Html {
  const top = topOf(points, axis);
  const column = width / Math.max(1, points.length);
  return plot(
    axis.label,
    points.map(({ title, value, look = 'none' }, at) => {
      const tall = value === null || value === 0 ? 0 : Math.max(least, (value / top) * height);
      return html`<g class="${look}">
        <title>${title}</title>
        <rect class="column" x="${round(at * column)}" y="0" width="${round(column)}" height="${height}" />
        <rect
          x="${round(at * column + column * 0.1)}"
          y="${round(height - tall)}"
          width="${round(column * 0.8)}"
          height="${round(tall)}"
        />
      </g>`;
    }),
  );
}

/** Areas of one or more series over the same columns. The first series is drawn in front. */
export function areaPlot(series: readonly { name: string; values: readonly number[] }[], axis: Axis): Html {
  const most = Math.max(axis.most ?? 0, 1, ...series.flatMap(({ values }) => values));
  const areas = series.map(({ name, values }) => {
    const step = width / Math.max(1, values.length);
    // Levels hold until the next column, so the line has steps.
    const edge = values
      .map((value, at) => {
        const y = round(height - (value / most) * height);
        return `L${round(at * step)} ${y}L${round((at + 1) * step)} ${y}`;
      })
      .join('');
    return html`<path class="area ${name}" d="M0 ${height}${edge}L${width} ${height}Z" />`;
  });
  return plot(axis.label, areas.toReversed());
}

function plot(label: string, marks: readonly Html[]): Html {
  return html`<svg
    class="plot-image"
    viewBox="0 0 ${width} ${height}"
    preserveAspectRatio="none"
    role="img"
    focusable="false"
    aria-label="${label}"
  >
    <path class="floor" d="M0 ${height}H${width}" />
    ${marks}
  </svg>`;
}

function topOf(points: readonly Point[], { most }: Axis): number {
  return most ?? Math.max(1, ...points.map(({ value }) => value ?? 0));
}

/** Enough for a screen, and short. */
function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** A share of the longest value in a table, for the eye only: the number stands beside it. */
export function shareBar(value: number, most: number, look: Look = 'none'): Html {
  const share = most <= 0 ? 0 : Math.min(1, value / most) * 100;
  return html`<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">
    <rect class="column" width="100" height="8" />
    <rect class="${look}" width="${round(share)}" height="8" />
  </svg>`;
}

export interface StripMark {
  look: Look;
  title: string;
  href: string;
}

/** A row of links, the oldest first. Each has its words as its name. */
export function strip(label: string, marks: readonly StripMark[]): Html {
  return html`<ol class="strip" aria-label="${label}">
    ${marks.map(
      ({ look, title, href }) =>
        html`<li><a class="${look}" href="${href}" title="${title}" aria-label="${title}"></a></li>`,
    )}
  </ol>`;
}

export interface PlotPart {
  title: string;
  /** The number of the whole. */
  figure: string;
  about?: string | Html;
  image: Html;
  /** Not needed if several plots share a table. */
  table?: Html;
}

/** A plot with its number above, and its table behind. */
export function plotPart({ title, figure, about, image, table }: PlotPart): Html {
  return html`<figure class="plot">
    <figcaption>
      ${title} <strong>${figure}</strong> ${about !== undefined && html`<span class="aside">${about}</span>`}
    </figcaption>
    ${image}
    ${
      table !== undefined &&
      html`<details class="numbers">
        <summary aria-label="Table: ${title}">Table</summary>
        ${table}
      </details>`
    }
  </figure>`;
}
