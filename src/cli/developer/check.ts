import { isUtf8 } from 'node:buffer';
import { checkFile } from '../../shared/documents/file.ts';
import { readFile, RefusedError, type DocumentFile } from '../../shared/documents/mistakes.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { ownFiles } from '../../shared/domain/workflow-files.ts';
import type { Call } from './call.ts';
import { formatOf, parseYaml, writeDocument, type Document } from './documents.ts';
import { WrongUse } from './errors.ts';
import { plainFile } from './plain-file.ts';
import { clean, words } from './text.ts';

/** As a server would check it, without a project. */
export async function run({ screen, options }: Call<{ resolved?: true }>, named?: string): Promise<number> {
  const [path, content] = await contentOf(named === undefined ? ownFiles : [named]);
  const { file, mistakes } = await checked(content, path);
  const resolved = file && options.resolved ? withoutIncludes(file.plain as Document) : undefined;
  if (screen.isJson) screen.json({ file: path, mistakes, ...(resolved && { resolved }) });
  else if (resolved) screen.out.write(await writeDocument(resolved, formatOf(path) ?? 'toml'));
  else if (file) screen.print(words`${path} has no mistakes.`);
  else for (const line of mistakes) screen.print(clean(line));
  if (file?.isPartial)
    screen.hint(words`What ${path} includes is read only by the server. It is not judged here, and suites lack it.`);
  return file ? 0 : 1;
}

function withoutIncludes(document: Document): Document {
  const { include: _, ...others } = document;
  return others;
}

async function contentOf(paths: readonly string[]): Promise<[path: string, text: Buffer]> {
  for (const path of paths) {
    const content = await plainFile(path, bytes.configFile);
    if (content) return [path, content];
  }
  throw new WrongUse(words`There is no ${paths.join(' and no ')} here.`);
}

export async function mistakesIn(content: Buffer, path: string): Promise<string[]> {
  return (await checked(content, path)).mistakes;
}

/** The file if it has no mistakes. */
async function checked(content: Buffer, path: string): Promise<{ file?: DocumentFile; mistakes: string[] }> {
  const kilobytes = bytes.configFile / 1024;
  if (content.length > bytes.configFile) return { mistakes: [`${path}: it has more than ${kilobytes} kB.`] };
  if (!isUtf8(content)) return { mistakes: [`${path}: it is not UTF-8 text.`] };
  try {
    const file = await readFile(content.toString(), path, parseYaml);
    checkFile(file);
    return { file, mistakes: [] };
  } catch (error) {
    if (error instanceof RefusedError) return { mistakes: error.lines };
    throw error;
  }
}
