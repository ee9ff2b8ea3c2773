import yaml from 'yaml';
import type { ParsedFile } from './mistakes.ts';
import { mostLevels } from './toml-lines.ts';

/** A few aliases of aliases can expand to more than any memory holds. */
const mostAliases = 20;

/**
 * The parser recurses, and takes long for a deeply nested file, so a server calls it in a thread. The package has
 * CommonJS modules: when bundled, its functions are only in its default export.
 */
export function parseYaml(text: string): ParsedFile {
  const counter = new yaml.LineCounter();
  try {
    const document = yaml.parseDocument(text, { lineCounter: counter, prettyErrors: false });
    const [error] = document.errors;
    if (error) return { problem: error.message, line: counter.linePos(error.pos[0]).line };
    const lines = new Map<string, number>();
    const note = (own: readonly (string | number)[], at: unknown, inner: unknown): void => {
      if (yaml.isNode(at) && at.range) lines.set(JSON.stringify(own), counter.linePos(at.range[0]).line);
      walk(inner, own);
    };
    const walk = (node: unknown, path: readonly (string | number)[]): void => {
      if (path.length > mostLevels) return;
      if (yaml.isMap(node))
        for (const { key, value } of node.items)
          note([...path, String(yaml.isScalar(key) ? key.value : '')], key, value);
      if (yaml.isSeq(node)) for (const [at, item] of node.items.entries()) note([...path, at], item, item);
    };
    walk(document.contents, []);
    return { value: document.toJS({ maxAliasCount: mostAliases }) as unknown, lines };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}
