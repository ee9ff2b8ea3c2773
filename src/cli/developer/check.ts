import { isUtf8 } from 'node:buffer';
import { checkFile } from '../../shared/documents/file.ts';
import { readFile, RefusedError } from '../../shared/documents/mistakes.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { plainFile } from './plain-file.ts';
import { clean, words } from './text.ts';

export const usual = ['.headrace.toml', '.headrace.yml'];

/** As a server would check it, without a project. */
export async function run({ screen }: Call, named?: string): Promise<number> {
  const [path, text] = await contentOf(named === undefined ? usual : [named]);
  const mistakes = await mistakesIn(text, path);
  if (screen.isJson) screen.json({ file: path, mistakes });
  else if (mistakes.length === 0) screen.print(words`${path} has no mistakes.`);
  else for (const line of mistakes) screen.print(clean(line));
  return mistakes.length === 0 ? 0 : 1;
}

async function contentOf(paths: readonly string[]): Promise<[path: string, text: Buffer]> {
  for (const path of paths) {
    const content = await plainFile(path, bytes.configFile);
    if (content) return [path, content];
  }
  throw new WrongUse(words`There is no ${paths.join(' and no ')} here.`);
}

/** Loaded only for YAML. */
const parseYaml = async (text: string) => (await import('../../shared/documents/yaml.ts')).parseYaml(text);

export async function mistakesIn(content: Buffer, path: string): Promise<string[]> {
  if (content.length > bytes.configFile) return [`${path}: it has more than ${bytes.configFile / 1024} kB.`];
  if (!isUtf8(content)) return [`${path}: it is not UTF-8 text.`];
  try {
    checkFile(await readFile(content.toString(), path, parseYaml));
    return [];
  } catch (error) {
    if (error instanceof RefusedError) return error.lines;
    throw error;
  }
}
