import type { ApiError } from '../errors.ts';

/** Reading a document from a file, with everything that is wrong with it in words. */

export type Table = Readonly<Record<string, unknown>>;

export class RefusedError extends Error {
  readonly lines: string[];

  constructor(lines: string[]) {
    super(lines.join(' '));
    this.lines = lines;
  }
}

/**
 * By the end of its name: TOML or JSON. YAML is not read here: its parser recurses, and a file that is nested deeply enough
 * would end the whole process.
 */
export async function tableIn(text: string, path: string): Promise<Table> {
  let value: unknown;
  try {
    value = await parsed(text, path);
  } catch (error) {
    const [first = ''] = (error instanceof Error ? error.message : '').split('\n');
    throw new RefusedError([`${path} cannot be read: ${first.slice(0, 500)}`]);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new RefusedError([`${path} cannot be read: it is no table of settings.`]);
  if (isDeeper(value, mostLevels)) throw new RefusedError([`${path} cannot be read: it is nested too deeply.`]);
  return value as Table;
}

/** Tables in lists in tables: more than any document has, and few enough for every stack. */
const mostLevels = 10;

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

async function parsed(text: string, path: string): Promise<unknown> {
  if (path.endsWith('.json')) return JSON.parse(text) as unknown;
  return (await import('smol-toml')).parse(text);
}

const labels: Readonly<Record<string, string>> = {
  is_blank: 'is missing',
  invalid_format: 'is not known, too large, or not of the right form',
  already_exists: 'is there twice',
  not_found: 'is not there',
  is_reserved: 'is a reserved name, or one more than there can be',
  too_long: 'is too long',
  payment_required: 'the owner of the project has to pay first',
};

/** One line for each mistake, with its place in the file. */
export function linesOf(error: ApiError, path: string): string[] {
  return Object.entries(error.fields).flatMap(([name, codes]) =>
    codes.map((code) => {
      const [, variable] = /^((?:.*\[)?variables\]?\[[^\]]+\])\[content\]$/.exec(name) ?? [];
      if (variable !== undefined && code === 'is_blank')
        return `${path}: ${variable} has no value on the server yet. Set it in the settings first.`;
      if (variable !== undefined && code === 'invalid_format')
        return `${path}: ${variable}: a file holds no secret. Write keep = true, or secret = false where it is none.`;
      return `${path}: ${name === 'generic' ? '' : `${name} `}${labels[code] ?? code}.`;
    }),
  );
}
