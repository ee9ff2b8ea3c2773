import { WrongUse } from './errors.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import { words } from './text.ts';

export type Format = 'toml' | 'yaml' | 'json';
export const formats: readonly Format[] = ['toml', 'yaml', 'json'];

export type Document = Record<string, unknown>;

/** Without a known ending, TOML is tried, then YAML, which includes JSON. */
export function formatOf(file: string): Format | undefined {
  const [, ending = ''] = /\.([a-z]+)$/i.exec(file) ?? [];
  if (/^ya?ml$/i.test(ending)) return 'yaml';
  return formats.find((format) => format === ending.toLowerCase());
}

export async function readDocument(text: string, file: string): Promise<Document> {
  const format = formatOf(file);
  const tried: Format[] = format === undefined ? ['toml', 'yaml'] : [format];
  let problem = '';
  for (const one of tried) {
    try {
      const value = await parsers[one](text);
      if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Document;
      problem ||= 'it is not a table of settings';
    } catch (error) {
      problem ||= messageOf(error);
    }
  }
  throw new WrongUse(words`${file} cannot be read: ${problem}`);
}

const parsers: Record<Format, (text: string) => Promise<unknown>> = {
  toml: async (text) => (await import('smol-toml')).parse(text),
  async yaml(text) {
    const parsed = (await import('../../shared/documents/yaml.ts')).parseYaml(text);
    if ('value' in parsed) return parsed.value;
    throw new Error(parsed.line === undefined ? parsed.problem : `${parsed.problem} (line ${parsed.line})`);
  },
  json: async (text) => JSON.parse(text) as unknown,
};

export async function writeDocument(document: Document, format: Format): Promise<string> {
  if (format === 'json') return `${JSON.stringify(document, undefined, 2)}\n`;
  // When bundled, this CommonJS package has its functions only in its default export.
  if (format === 'yaml') return (await import('yaml')).default.stringify(document);
  return `${(await import('smol-toml')).stringify(document).trimEnd()}\n`;
}
