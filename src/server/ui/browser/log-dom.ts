import { coloursOf } from './log-colours.ts';
import { groupOf, markClasses, piecesOf, type Piece, type Style } from './log-text.ts';
import type { LogLine } from './log-source.ts';
import { expressionOf } from './seen-before.ts';

/** A log's content is inserted only as text. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

export interface LineOptions {
  isSelected: boolean;
  isFolded: boolean;
  /** Times of lines count from here, in milliseconds since the log began. */
  began: number;
}

export function lineElement(
  { number, at, text, cut, mark }: LogLine,
  before: Style,
  { isSelected, isFolded, began }: LineOptions,
): { element: HTMLElement; after: Style } {
  const { pieces, after } = piecesOf(text, before);
  const words = make('span', { class: 'log-text' });
  const group = groupOf(text);
  if (typeof group === 'object') {
    const fold = { type: 'button', class: 'log-fold', 'aria-expanded': String(!isFolded) };
    words.append(make('button', { ...fold, 'aria-label': `Group ${group.opens}` }), group.opens);
  } else if (group === undefined) {
    words.append(...pieces.map(pieceNode));
  }
  if (cut) words.append(make('em', { class: 'log-cut' }, ' … the line goes on; the downloaded log has all of it'));
  const element = make(
    'div',
    { class: 'log-line', 'data-line': String(number) },
    make('a', { class: 'log-number', href: `#L${number}` }, String(number)),
    make('span', { class: 'log-time' }, at === null ? '' : clock(Math.max(0, at - began))),
    words,
  );
  element.classList.toggle('log-head', typeof group === 'object');
  showSelected(element, isSelected);
  if (mark !== '') element.classList.add(markClasses[mark]);
  return { element, after };
}

/** A selected line has a link to the builds of the project whose logs have a line like it. */
export function showSelected(element: HTMLElement, isSelected: boolean): void {
  element.classList.toggle('log-selected', isSelected);
  element.querySelector('.log-seen')?.remove();
  const [project] = /^\/ui\/projects\/\d+/.exec(location.pathname) ?? [];
  if (!isSelected || project === undefined) return;
  const expression = expressionOf(element.querySelector('.log-text')?.textContent ?? '');
  if (expression === '') return;
  const href = `${project}/logs?${new URLSearchParams({ expression }).toString()}`;
  element.append(make('a', { class: 'log-seen', href }, 'Seen before?'));
}

function pieceNode({ text, style, link }: Piece): Node {
  const { colour, ground, bold, faint, italic, underline, inverse, struck } = style;
  const flags = { bold, faint, italic, underline, struck };
  const classes = Object.entries(flags).flatMap(([name, isOn]) => (isOn ? [`log-${name}`] : []));
  const isSimple = ground < 0 && colour < 16 && !inverse;
  if (isSimple && colour >= 0) classes.push(`log-c${colour}`);
  if (isSimple && classes.length === 0 && link === undefined) return document.createTextNode(text);
  const element = make(link === undefined ? 'span' : 'a', { class: classes.join(' ') }, text);
  if (element instanceof HTMLAnchorElement && link !== undefined) {
    element.href = link;
    element.rel = 'noopener noreferrer nofollow';
    element.target = '_blank';
  }
  if (!isSimple) {
    const [front, back] = coloursOf(style);
    element.style.color = front;
    if (ground >= 0 || inverse) element.style.backgroundColor = back;
  }
  return element;
}

function two(value: number): string {
  return String(Math.floor(value)).padStart(2, '0');
}

function clock(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  const hours = Math.floor(seconds / 3600);
  const rest = `${two((seconds / 60) % 60)}:${two(seconds % 60)}.${String(milliseconds % 1000).padStart(3, '0')}`;
  return hours > 0 ? `${hours}:${rest}` : rest;
}

/** A match may span several elements. */
export function rangesIn(element: Element, positions: readonly number[]): Range[] {
  const words = element.querySelector('.log-text');
  if (!words) return [];
  const nodes: { node: Text; start: number }[] = [];
  const walker = document.createTreeWalker(words, NodeFilter.SHOW_TEXT);
  let length = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    nodes.push({ node: node as Text, start: length });
    length += (node as Text).length;
  }
  const ranges: Range[] = [];
  for (let at = 0; at + 1 < positions.length; at += 2) {
    const [from = 0, to = 0] = [positions[at], positions[at + 1]];
    const [first, last] = [nodes.findLast(({ start }) => start <= from), nodes.findLast(({ start }) => start < to)];
    if (!first || !last || to > length || to <= from) continue;
    const range = document.createRange();
    range.setStart(first.node, from - first.start);
    range.setEnd(last.node, to - last.start);
    ranges.push(range);
  }
  return ranges;
}
