/** The lines of the tables and keys of a TOML file: the parser gives positions only for errors. */

/** The deepest nesting of tables: more than any document needs, and few enough for every stack. */
export const mostLevels = 10;

type Path = readonly (string | number)[];

/** A name before `=` or in a header: bare, or in quotes. */
const name = String.raw`(?:[\w-]+|"[^"]*"|'[^']*')`;
const dotted = new RegExp(String.raw`^\s*(${name}(?:\s*\.\s*${name})*)\s*=`);
const header = new RegExp(String.raw`^\s*(\[\[?)\s*(${name}(?:\s*\.\s*${name})*)\s*\]`);

function namesIn(text: string): string[] {
  return Array.from(text.matchAll(new RegExp(name, 'g')), ([one]) => one.replace(/^["'](.*)["']$/, '$1'));
}

/** The line of each table and key, by its path as JSON. Parts of a value have no line of their own. */
export function linesOfToml(text: string): Map<string, number> {
  const lines = new Map<string, number>();
  /** How many tables each list has so far. */
  const counts = new Map<string, number>();
  const within = (path: Path): Path => {
    const count = counts.get(JSON.stringify(path));
    return count === undefined ? path : [...path, count - 1];
  };
  let table: Path = [];
  let quotes: string | undefined;
  for (const [index, line] of text.split('\n').entries()) {
    if (quotes !== undefined) {
      if (line.includes(quotes)) quotes = undefined;
      continue;
    }
    const [, brackets, headed] = header.exec(line) ?? [];
    if (headed !== undefined) {
      const names = namesIn(headed);
      if (names.length > mostLevels) continue; // it is refused anyway
      table = names.slice(0, -1).reduce<Path>((path, one) => within([...path, one]), []);
      table = [...table, names.at(-1) ?? ''];
      const list = JSON.stringify(table);
      if (brackets === '[[') counts.set(list, (counts.get(list) ?? 0) + 1);
      table = within(table);
      lines.set(JSON.stringify(table), index + 1);
      continue;
    }
    const [, keys] = dotted.exec(line) ?? [];
    if (keys !== undefined && namesIn(keys).length <= mostLevels)
      lines.set(JSON.stringify([...table, ...namesIn(keys)]), index + 1);
    quotes = ['"""', "'''"].find((one) => line.split(one).length % 2 === 0);
  }
  return lines;
}
