import yaml from 'yaml';
import type { ParsedFile } from './mistakes.ts';
import { mostLevels } from './toml-lines.ts';

/** A few aliases of aliases can expand beyond any memory. */
const mostAliases = 500;
const mostExpanded = 10_000;

/**
 * Takes anchors, aliases and merges (`<<`). The parser recurses and is slow for deep nesting, so a server calls it in a
 * thread. When bundled, the CommonJS package has its functions only in its default export.
 */
export function parseYaml(text: string, tags: readonly string[] = []): ParsedFile {
  const counter = new yaml.LineCounter();
  try {
    const document = yaml.parseDocument(text, {
      lineCounter: counter,
      prettyErrors: false,
      merge: true,
      customTags: tags.map(asTable),
    });
    const [error] = document.errors;
    if (error) return { problem: error.message, line: counter.linePos(error.pos[0]).line };
    const targets = targetsIn(document.contents);
    if (!targets) return { problem: `it has more than ${mostAliases} aliases, or they expand to too much` };
    const lines = new Map<string, number>();
    const note = (own: readonly (string | number)[], at: unknown, inner: unknown): void => {
      const name = JSON.stringify(own);
      if (lines.has(name)) return;
      if (yaml.isNode(at) && at.range) lines.set(name, counter.linePos(at.range[0]).line);
      walk(inner, own);
    };
    const walk = (given: unknown, path: readonly (string | number)[]): void => {
      if (path.length > mostLevels) return;
      const node = targets.get(given) ?? given;
      if (yaml.isMap(node)) {
        const [merged, own] = [node.items.filter(isMerge), node.items.filter((item) => !isMerge(item))];
        for (const { key, value } of own) note([...path, String(yaml.isScalar(key) ? key.value : '')], key, value);
        // Fields of the map itself win, then those of the first merge.
        for (const { value } of merged) {
          const maps = targets.get(value) ?? value;
          for (const map of yaml.isSeq(maps) ? maps.items : [maps]) walk(map, path);
        }
      }
      if (yaml.isSeq(node)) for (const [at, item] of node.items.entries()) note([...path, at], item, item);
    };
    walk(document.contents, []);
    return { value: document.toJS({ maxAliasCount: -1 }) as unknown, lines };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** A list with such a tag is a table: the list under the name of the tag. */
function asTable(tag: string): yaml.CollectionTag {
  const resolve = (list: unknown): yaml.YAMLMap => {
    const table = new yaml.YAMLMap();
    table.set(tag, list);
    return table;
  };
  return { tag, collection: 'seq', resolve };
}

function isMerge({ key }: { key: unknown }): boolean {
  return yaml.isScalar(key) && (key.value === '<<' || typeof key.value === 'symbol');
}

/** The node of each alias. Undefined if they expand too far, which is checked before anything is made of them. */
function targetsIn(contents: unknown): Map<unknown, unknown> | undefined {
  const anchored = new Map<string, unknown>();
  const sizes = new Map<unknown, number>();
  const targets = new Map<unknown, unknown>();
  let aliases = 0;
  /** The size with all aliases written out. A node inside itself has infinitely many. */
  const sizeOf = (node: unknown): number => {
    const known = sizes.get(node);
    if (known !== undefined) return known;
    if (yaml.isNode(node)) sizes.set(node, Infinity);
    if (yaml.isNode(node) && !yaml.isAlias(node) && node.anchor !== undefined) anchored.set(node.anchor, node);
    let size = 1;
    if (yaml.isAlias(node)) {
      aliases += 1;
      targets.set(node, anchored.get(node.source));
      size = sizeOf(anchored.get(node.source));
    } else if (yaml.isMap(node)) for (const { key, value } of node.items) size += sizeOf(key) + sizeOf(value);
    else if (yaml.isSeq(node)) for (const item of node.items) size += sizeOf(item);
    if (yaml.isNode(node)) sizes.set(node, size);
    return size;
  };
  const size = sizeOf(contents);
  return aliases > 0 && (aliases > mostAliases || size > mostExpanded) ? undefined : targets;
}
