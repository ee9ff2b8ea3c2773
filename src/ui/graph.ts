import { nameWithVariant } from '../domain/matrix.ts';
import { timeSpanText } from './browser/time-words.ts';
import { html, type Html } from './html.ts';
import { buildWord, lookOfBuild, shapes, type Look } from './states.ts';

/**
 * The suites of a request and their needs, drawn in columns: each suite is to the right of all suites that it needs.
 * The list below the drawing has the same content as text, so the drawing is hidden from screen readers and skipped by
 * the keyboard.
 */

/** The data of a node. */
export interface DrawnBuild {
  id_str: string;
  suite_name: string;
  variant: string;
  build_state: string;
  allow_failure: boolean;
  started_at: string | null;
  finished_at: string | null;
  needs: readonly string[];
}

interface Node {
  name: string;
  builds: readonly DrawnBuild[];
  needs: readonly string[];
  depth: number;
  row: number;
}

/** A larger drawing would not help. The list has the same content. */
const mostNodes = 400;

/** The depth of each suite: the length of the longest chain of suites that it needs. */
export function depths(builds: readonly Pick<DrawnBuild, 'suite_name' | 'needs'>[]): Map<string, number> {
  const needs = new Map(builds.map((build) => [build.suite_name, build.needs]));
  const found = new Map<string, number>();
  const depthOf = (name: string): number => {
    const known = found.get(name);
    if (known !== undefined) return known;
    found.set(name, 0); // there are no circles; if there were one, it would end here
    const behind = (needs.get(name) ?? []).filter((needed) => needs.has(needed)).map(depthOf);
    const depth = behind.length === 0 ? 0 : Math.max(...behind) + 1;
    found.set(name, depth);
    return depth;
  };
  for (const name of needs.keys()) depthOf(name);
  return found;
}

/** False where no suite needs another one of the request. `builds` are the newest attempts. */
export function graphPart(builds: readonly DrawnBuild[], path: string): Html | false {
  const nodes = placed(builds);
  const lines = linesBetween(nodes);
  if (lines.length === 0 || nodes.length > mostNodes) return false;
  const columns = Math.max(...nodes.map(({ depth }) => depth)) + 1;
  const rows = Math.max(...nodes.map(({ row }) => row)) + 1;
  const [width, height] = [columns * column - gap + 2, rows * line - (line - boxHeight) + 2];
  return html`<div class="graph" role="group" aria-label="Drawing of the suites" tabindex="0">
    <svg viewBox="-1 -1 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true" focusable="false">
      <path class="edges" d="${lines.join('')}" />
      ${nodes.map((node) => drawn(node, path))}
    </svg>
  </div>`;
}

/** In pixels: a column with the gap behind it, a line, and the box of a suite. */
const [column, gap, line, boxHeight, edge] = [216, 48, 52, 40, 6];
const boxWidth = column - gap;

function placed(builds: readonly DrawnBuild[]): Node[] {
  const depth = depths(builds);
  const bySuite = Array.from(Map.groupBy(builds, (build) => build.suite_name));
  const nodes = bySuite.map(([name, own]) => {
    const needs = (own[0]?.needs ?? []).filter((needed) => depth.has(needed));
    return { name, builds: own, needs, depth: depth.get(name) ?? 0, row: 0 };
  });
  const rowOf = new Map<string, number>();
  const columns = Array.from(Map.groupBy(nodes, (node) => node.depth)).toSorted(([a], [b]) => a - b);
  for (const [, some] of columns) {
    // Near the middle of the suites that it needs, so that fewer lines cross.
    const middle = ({ needs }: Node): number =>
      needs.reduce((sum, needed) => sum + (rowOf.get(needed) ?? 0), 0) / Math.max(1, needs.length);
    for (const [row, node] of some.toSorted((a, b) => middle(a) - middle(b)).entries()) {
      node.row = row;
      rowOf.set(node.name, row);
    }
  }
  return nodes;
}

/** One line from each needed suite, unless another needed suite is between the two. */
function linesBetween(nodes: readonly Node[]): string[] {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const behind = new Map<string, Set<string>>();
  for (const { name, needs } of nodes.toSorted((a, b) => a.depth - b.depth))
    behind.set(name, new Set(needs.flatMap((needed) => [needed, ...(behind.get(needed) ?? [])])));
  return nodes.flatMap((to) => {
    const isThrough = (needed: string): boolean => to.needs.some((other) => behind.get(other)?.has(needed));
    return to.needs.flatMap((needed) => {
      const from = byName.get(needed);
      if (!from || isThrough(needed)) return [];
      const [startX, startY] = [from.depth * column + boxWidth, from.row * line + boxHeight / 2];
      const [endX, endY] = [to.depth * column, to.row * line + boxHeight / 2];
      const bend = startX + gap / 2;
      return [`M${startX} ${startY}C${bend} ${startY} ${bend} ${endY} ${startX + gap} ${endY}H${endX}`];
    });
  });
}

/** The looks, the one that needs most attention first: a matrix has the first that occurs. */
const gravest: readonly Look[] = ['bad', 'warn', 'busy', 'held', 'wait', 'none', 'good'];

function drawn({ name, builds, depth, row }: Node, path: string): Html {
  const [x, y] = [depth * column, row * line];
  const looks = builds.map(lookOfBuild);
  const look = gravest.find((one) => looks.includes(one)) ?? 'none';
  const [first] = builds;
  const href = builds.length === 1 ? `${path}/builds/${first?.id_str}` : `#variants-${encodeURIComponent(name)}`;
  const title = builds.map((build) => `${nameWithVariant(name, build.variant)}: ${buildWord(build)}`).join('\n');
  return html`<a href="${href}" tabindex="-1" class="node ${look}" transform="translate(${x} ${y})">
    <title>${title}</title>
    <rect width="${boxWidth}" height="${boxHeight}" rx="${edge}" />
    <path class="shape" transform="translate(${edge} 12)" d="${shapes[look]}" />
    <text x="28" y="17">${cut(name)}</text>
    <text class="small" x="28" y="32">${stateAndTime(builds)}</text>
  </a>`;
}

/** Cuts a text so that it fits into a box. */
function cut(text: string, longest = 18): string {
  const characters = Array.from(text);
  return characters.length <= longest ? text : `${characters.slice(0, longest - 1).join('')}…`;
}

function stateAndTime(builds: readonly DrawnBuild[]): string {
  const counts = Array.from(Map.groupBy(builds, buildWord), ([word, some]) =>
    builds.length === 1 ? word : `${some.length} ${word}`,
  ).join(', ');
  const begun = builds.flatMap(({ started_at: at }) => (at === null ? [] : [Date.parse(at)]));
  const ended = builds.map(({ finished_at: at }) => (at === null ? Date.now() : Date.parse(at)));
  return begun.length === 0
    ? cut(counts, 22)
    : `${cut(counts)}, ${timeSpanText(Math.max(...ended) - Math.min(...begun))}`;
}
