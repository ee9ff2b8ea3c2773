import type { ApiError } from '../errors.ts';
import { readUntrustedJson } from '../lib/untrusted-json.ts';
import { wrongForm } from './expected.ts';
import { DocumentError } from './mistake-list.ts';
import { find } from './places.ts';
import { isTable, resolve, type IncludedFile, type Resolved } from './templates.ts';
import { linesOfToml, mostLevels } from './toml-lines.ts';

export interface DocumentFile extends Resolved {
  path: string;
  lines: ReadonlyMap<string, number>;
}

/** `lines` has the line of everything in the file, by its path as JSON. */
export type ParsedFile = { value: unknown; lines: ReadonlyMap<string, number> } | { problem: string; line?: number };

export class RefusedError extends Error {
  readonly lines: string[];

  constructor(lines: string[]) {
    super(lines.join(' '));
    this.lines = lines;
  }
}

/** The end of the file's name selects TOML, JSON or YAML. `parseYaml` is in yaml.ts. */
export async function readFile(
  text: string,
  path: string,
  parseYaml: (text: string) => Promise<ParsedFile>,
): Promise<DocumentFile> {
  const parsed = /\.ya?ml$/i.test(path) ? await parseYaml(text) : await parsePlain(text, path);
  const unreadable = (why: string, line?: number): RefusedError =>
    new RefusedError([`${at(path, line)} cannot be read: ${why.slice(0, 500).replaceAll(/\p{Cc}/gu, '\uFFFD')}`]);
  if ('problem' in parsed) throw unreadable(parsed.problem.split('\n', 1)[0] ?? '', parsed.line);
  const { value, lines } = parsed;
  if (!isTable(value)) throw unreadable('it is not a table of settings.');
  if (isDeeper(value, mostLevels)) throw unreadable('it is nested too deeply.');
  return { path, lines, ...resolve(value) };
}

/** The texts are in the order of the file's `include`. Says nothing of what is in them. */
export async function withIncluded(
  file: DocumentFile,
  texts: readonly { path: string; text: string }[],
  parseYaml: (text: string) => Promise<ParsedFile>,
): Promise<DocumentFile> {
  const included: IncludedFile[] = [];
  const wrong: string[] = [];
  for (const [index, { path, text }] of texts.entries()) {
    const parsed = /\.ya?ml$/i.test(path) ? await parseYaml(text) : await parsePlain(text, path);
    if ('value' in parsed && isTable(parsed.value) && !isDeeper(parsed.value, mostLevels))
      included.push({ path, table: parsed.value, lines: parsed.lines });
    else {
      const line = 'problem' in parsed ? parsed.line : undefined;
      wrong.push(mistake(file, `include[${index}]`, `${at(path, line).replace(/:$/, '')} cannot be read.`));
    }
  }
  if (wrong.length > 0) throw new RefusedError(wrong);
  return { ...file, ...resolve(file.table, included) };
}

async function parsePlain(text: string, path: string): Promise<ParsedFile> {
  try {
    if (/\.json$/i.test(path)) return { value: readUntrustedJson(text), lines: new Map() };
    const value = (await import('smol-toml')).parse(text);
    return { value, lines: linesOfToml(text) };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { problem: error.message, ...('line' in error && { line: Number(error.line) }) };
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

const at = (path: string, line?: number): string => (line === undefined ? path : `${path}:${line}:`);

export function mistake(file: DocumentFile, where: string, what: string): string {
  const { path, line } = find(file, where);
  const included = path[0] === 'include' && path.length > 2 ? file.included?.[Number(path[1])] : undefined;
  // Readers of this project may not be allowed to read the other repository.
  if (included) {
    const steps = path.slice(2);
    const prefixes = steps.map((_, index) => JSON.stringify(steps.slice(0, steps.length - index)));
    const inside = prefixes.map((prefix) => included.lines.get(prefix)).find((one) => one !== undefined);
    const own = file.lines.get(JSON.stringify(path.slice(0, 2)));
    return `${at(file.path, own)} ${at(included.path, inside).replace(/:$/, '')} has a mistake.`;
  }
  // Anyone may have written the names in the file, and this becomes a line of a log.
  return `${at(file.path, line).replace(/:$/, '')}: ${what.replaceAll(/\p{Cc}/gu, '\uFFFD')}`;
}

const wordsFor: Readonly<Record<string, string>> = {
  is_blank: 'is missing',
  already_exists: 'appears twice',
  not_found: 'names something that does not exist, or belongs to another account',
  is_reserved: 'is a reserved name, or exceeds the limit',
  too_long: 'is too long',
  payment_required: 'the owner of the project must pay first',
};

function wordsOf(error: ApiError, file: DocumentFile, name: string, code: string): string {
  const why = error instanceof DocumentError ? error.why.get(name) : undefined;
  if (why !== undefined) return `${why}.`;
  if (error.detail !== undefined) return `is refused: ${error.detail}`;
  const { path, value } = find(file, name);
  return `${code === 'invalid_format' ? wrongForm(path, value) : (wordsFor[code] ?? code)}.`;
}

/** One line per mistake, in the file's order. */
export function linesOf(error: ApiError, file: DocumentFile): string[] {
  const found = Object.entries(error.fields).map(([name, codes]) => ({
    name,
    codes,
    line: find(file, name).line ?? 0,
  }));
  const inOrder = found.toSorted((a, b) => a.line - b.line);
  return inOrder.flatMap(({ name, codes }) =>
    codes.map((code) => {
      const [, variable] = /^((?:suites\[.*\]\[)?variables\]?\[[^\]]+\])\[content\]$/.exec(name) ?? [];
      if (variable === undefined || name.includes('][services]['))
        return mistake(file, name, `${name === 'generic' ? '' : `${name} `}${wordsOf(error, file, name, code)}`);
      if (code === 'is_blank')
        return mistake(file, name, `${variable} has no value on the server yet. Set it in the settings first.`);
      return mistake(
        file,
        name,
        `${variable}: a file must not contain secrets. Write keep = true, or secret = false if it is not a secret.`,
      );
    }),
  );
}
