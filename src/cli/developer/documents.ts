import { readFile, RefusedError, type DocumentFile } from '../../shared/documents/mistakes.ts';
import { WrongUse } from './errors.ts';

export type Format = 'toml' | 'yaml' | 'json';
export const formats: readonly Format[] = ['toml', 'yaml', 'json'];

export type Document = Record<string, unknown>;

export function formatOf(file: string): Format | undefined {
  const [, ending = ''] = /\.([a-z]+)$/i.exec(file) ?? [];
  if (/^ya?ml$/i.test(ending)) return 'yaml';
  return formats.find((format) => format === ending.toLowerCase());
}

/** Loaded only for YAML. */
export const parseYaml = async (text: string) => (await import('../../shared/documents/yaml.ts')).parseYaml(text);

/** Without a known ending, TOML is tried, then YAML, which includes JSON. */
export async function readDocument(text: string, file: string): Promise<DocumentFile> {
  try {
    return await readFile(text, file, parseYaml);
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    if (formatOf(file) === undefined) {
      const asYaml = await readFile(text, `${file}.yml`, parseYaml).catch(() => undefined);
      if (asYaml) return { ...asYaml, path: file };
    }
    throw new WrongUse(error.lines.join('\n'));
  }
}

export async function writeDocument(document: Document, format: Format): Promise<string> {
  if (format === 'json') return `${JSON.stringify(document, undefined, 2)}\n`;
  // When bundled, this CommonJS package has its functions only in its default export.
  if (format === 'yaml') return (await import('yaml')).default.stringify(document, { aliasDuplicateObjects: false });
  return `${(await import('smol-toml')).stringify(document).trimEnd()}\n`;
}
