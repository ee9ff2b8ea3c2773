import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Suite } from '../../shared/records/suite.ts';
import { timeSpanText } from './browser/time-words.ts';
import { html, type Html } from './html.ts';
import { buildWord, lookOfBuild, shapes, type Look } from './states.ts';

/** Each suite is right of all suites that it needs. Screen readers skip the drawing and read the list below. */

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
  needs: readonly string[];
  depth: number;
  row: number;
}

interface BuiltNode extends Node {
  builds: readonly DrawnBuild[];
}

/** A slot that a line uses to pass through a column. */
interface Passage {
  name: string;
  depth: number;
  row: number;
}

const mostNodes = 400;

function depths(builds: readonly Pick<DrawnBuild, 'suite_name' | 'needs'>[]): Map<string, number> {
  const needs = new Map(builds.map((build) => [build.suite_name, build.needs]));
  const found = new Map<string, number>();
  const depthOf = (name: string): number => {
    const known = found.get(name);
    if (known !== undefined) return known;
    found.set(name, 0); // a cycle would end here, but none exists
    const behind = (needs.get(name) ?? []).filter((needed) => needs.has(needed)).map(depthOf);
    const depth = behind.length === 0 ? 0 : Math.max(...behind) + 1;
    found.set(name, depth);
    return depth;
  };
  for (const name of needs.keys()) depthOf(name);
  return found;
}

/** Each build after the builds that it needs. */
export function inOrderOfNeeds<Of extends Pick<DrawnBuild, 'suite_name' | 'needs'>>(builds: readonly Of[]): Of[] {
  const depth = depths(builds);
  return builds.toSorted((a, b) => (depth.get(a.suite_name) ?? 0) - (depth.get(b.suite_name) ?? 0));
}

/** False if no suite needs another suite. `builds` are the newest attempts. */
export function graphPart(builds: readonly DrawnBuild[], path: string): Html | false {
  return drawing(nodesOf(builds), (node) => drawn(node, path));
}

type DrawnSuite = Pick<Suite, 'id_str' | 'name'> & { needs: readonly { name: string }[] };

/** The suites of a project, before any build. */
export function suitesGraph(suites: readonly DrawnSuite[], path: string): Html | false {
  const needing = suites.map(({ name, needs }) => ({ suite_name: name, needs: needs.map((needed) => needed.name) }));
  const depth = depths(needing);
  const ids = new Map(suites.map(({ name, id_str: id }) => [name, id]));
  const nodes = needing.map(({ suite_name: name, needs }) => ({
    name,
    needs: needs.filter((needed) => depth.has(needed)),
    depth: depth.get(name) ?? 0,
    row: 0,
  }));
  return drawing(nodes, (node) =>
    boxed(
      node,
      { look: 'none', href: `${path}/${ids.get(node.name)}`, title: node.name },
      html`<text x="12" y="25">${cut(node.name, 20)}</text>`,
    ),
  );
}

function drawing<One extends Node>(nodes: readonly One[], box: (node: One) => Html): Html | false {
  const edges = edgesBetween(nodes);
  if (edges.length === 0 || nodes.length > mostNodes) return false;
  const passages = passagesOf(edges);
  const rowAt = arrange(nodes, passages);
  const lines = edges.map((one) => lineOf(one, rowAt));
  const columns = Math.max(...nodes.map(({ depth }) => depth)) + 1;
  const rows = Math.max(...[...nodes, ...passages].map(({ row }) => row)) + 1;
  const [width, height] = [columns * column - gap + 2, rows * line - (line - boxHeight) + 2];
  return html`<div class="graph" role="group" aria-label="Drawing of the suites" tabindex="0">
    <svg viewBox="-1 -1 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true" focusable="false">
      <path class="edges" d="${lines.join('')}" />
      ${nodes.map(box)}
    </svg>
  </div>`;
}

/** Sizes in pixels. A column includes the gap behind it, and a line is the height of a row. */
const [column, gap, line, boxHeight, edge] = [216, 48, 52, 40, 6];
const boxWidth = column - gap;

function nodesOf(builds: readonly DrawnBuild[]): BuiltNode[] {
  const depth = depths(builds);
  const bySuite = Array.from(Map.groupBy(builds, (build) => build.suite_name));
  return bySuite.map(([name, own]) => {
    const needs = (own[0]?.needs ?? []).filter((needed) => depth.has(needed));
    return { name, builds: own, needs, depth: depth.get(name) ?? 0, row: 0 };
  });
}

type Edge = readonly [from: Node, to: Node];

/** A line from each needed suite, unless another needed suite also needs it, directly or indirectly. */
function edgesBetween(nodes: readonly Node[]): Edge[] {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const suites = nodes.map(({ name, needs }) => ({ suite_name: name, needs }));
  return edgesOf(suites).flatMap(([needed, name]): Edge[] => {
    const [from, to] = [byName.get(needed), byName.get(name)];
    return from && to ? [[from, to]] : [];
  });
}

/** The same as names of suites. */
export function edgesOf(builds: readonly Pick<DrawnBuild, 'suite_name' | 'needs'>[]): [from: string, to: string][] {
  const depth = depths(builds);
  const needs = new Map(builds.map((build) => [build.suite_name, build.needs.filter((needed) => depth.has(needed))]));
  const behind = new Map<string, Set<string>>();
  for (const [name] of [...depth].toSorted(([, a], [, b]) => a - b))
    behind.set(name, new Set(needs.get(name)?.flatMap((needed) => [needed, ...(behind.get(needed) ?? [])])));
  return [...needs].flatMap(([name, own]) => {
    const isThrough = (needed: string): boolean => own.some((other) => behind.get(other)?.has(needed));
    return own.filter((needed) => !isThrough(needed)).map((needed): [string, string] => [needed, name]);
  });
}

/** Slots for lines that pass through columns. Otherwise such a line would seem to end at a box between. */
function passagesOf(edges: readonly Edge[]): Passage[] {
  const found = new Map<string, Passage>();
  for (const [{ name, depth: start }, { depth: end }] of edges)
    for (let depth = start + 1; depth < end; depth += 1) found.set(placeOf(name, depth), { name, depth, row: 0 });
  return Array.from(found.values());
}

const placeOf = (name: string, depth: number): string => `${depth} ${name}`;

/** Assigns the rows. Returns a function for the row where a suite's line crosses a column. */
function arrange(nodes: readonly Node[], passages: readonly Passage[]): (name: string, depth: number) => number {
  const rows = new Map<string, number>();
  const rowAt = (name: string, depth: number): number => rows.get(placeOf(name, depth)) ?? 0;
  const columns = Map.groupBy<number, Node | Passage>([...nodes, ...passages], ({ depth }) => depth);
  for (const [depth, some] of Array.from(columns).toSorted(([a], [b]) => a - b)) {
    // Each suite is placed near the middle of the suites that it needs, so fewer lines cross.
    const middle = (one: Node | Passage): number => {
      const before = 'needs' in one ? one.needs : [one.name];
      return before.reduce((sum, name) => sum + rowAt(name, depth - 1), 0) / Math.max(1, before.length);
    };
    for (const [row, one] of some.toSorted((a, b) => middle(a) - middle(b)).entries()) {
      one.row = row;
      rows.set(placeOf(one.name, depth), row);
    }
  }
  return rowAt;
}

const middleOf = (row: number): number => row * line + boxHeight / 2;

function lineOf([from, to]: Edge, rowAt: (name: string, depth: number) => number): string {
  const path = [`M${from.depth * column + boxWidth} ${middleOf(from.row)}`];
  for (let depth = from.depth + 1, y = middleOf(from.row); depth <= to.depth; depth += 1) {
    const [end, next] = [depth * column, middleOf(depth === to.depth ? to.row : rowAt(from.name, depth))];
    path.push(`C${end - gap / 2} ${y} ${end - gap / 2} ${next} ${end} ${next}`);
    if (depth < to.depth) path.push(`H${end + boxWidth}`);
    y = next;
  }
  return path.join('');
}

/** A matrix has the first look in this order that one of its variants has. */
const gravest: readonly Look[] = ['bad', 'warn', 'busy', 'held', 'wait', 'none', 'good'];

function drawn(node: BuiltNode, path: string): Html {
  const { name, builds } = node;
  const looks = builds.map(lookOfBuild);
  const look = gravest.find((one) => looks.includes(one)) ?? 'none';
  const [first] = builds;
  const href = builds.length === 1 ? `${path}/builds/${first?.id_str}` : `#variants-${encodeURIComponent(name)}`;
  const title = builds.map((build) => `${nameWithVariant(name, build.variant)}: ${buildWord(build)}`).join('\n');
  return boxed(
    node,
    { look, href, title },
    html`<path class="shape" transform="translate(${edge} 12)" d="${shapes[look]}" />
      <text x="28" y="17">${cut(name)}</text>
      <text class="small" x="28" y="32">${stateAndTime(builds)}</text>`,
  );
}

function boxed({ depth, row }: Node, of: { look: Look; href: string; title: string }, inside: Html): Html {
  return html`<a
    href="${of.href}"
    tabindex="-1"
    class="node ${of.look}"
    transform="translate(${depth * column} ${row * line})"
  >
    <title>${of.title}</title>
    <rect width="${boxWidth}" height="${boxHeight}" rx="${edge}" />
    ${inside}
  </a>`;
}

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
