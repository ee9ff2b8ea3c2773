import { readFileSync } from 'node:fs';
import { sourceFile } from '../../shared/lib/source-files.ts';

/** The tables of the documentation in which the first cell of a row is a word in code. */
const pages = ['concepts.md', 'troubleshooting.md'];

interface Meaning {
  section: string;
  cells: Record<string, string>;
}

export type Glossary = (word: string) => Meaning[];

/** Read when it is first asked. */
export function openGlossary(): Glossary {
  let known: Map<string, Meaning[]> | undefined;
  return (word) => (known ??= readPages()).get(word) ?? [];
}

function readPages(): Map<string, Meaning[]> {
  const found = new Map<string, Meaning[]>();
  for (const page of pages) {
    let [section, head]: [string, string[]] = ['', []];
    for (const line of readFileSync(sourceFile('..', 'docs', page), 'utf8').split('\n')) {
      if (line.startsWith('## ')) section = line.slice(3);
      const cells = line.startsWith('|') ? line.split('|').slice(1, -1).map(textOf) : [];
      if (cells.length === 0) head = [];
      else if (head.length === 0) head = cells;
      else if (/^\| *`[a-z_]+` *\|/.test(line)) {
        const [word = '', ...rest] = cells;
        const named = Object.fromEntries(rest.map((cell, at) => [head[at + 1]?.toLowerCase() ?? '', cell]));
        found.set(word, [...(found.get(word) ?? []), { section, cells: named }]);
      }
    }
  }
  return found;
}

/** Links lead nowhere in a tool's answer. */
function textOf(cell: string): string {
  return cell
    .trim()
    .replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .replaceAll('`', '');
}
