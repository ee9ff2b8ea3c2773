import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suggestedSuite } from '../domain/suggested-suite.ts';
import { mistakesIn, usual } from './check.ts';
import { WrongUse } from './errors.ts';

/** The file that a repository is built by, at the top of its work tree. */
export interface RepositoryFile {
  name: string;
  text: string;
}

/** Undefined if there is none. One with a mistake is refused. */
export async function repositoryFile(top: string): Promise<RepositoryFile | undefined> {
  const names = new Set(await readdir(top));
  const name = usual.find((one) => names.has(one));
  if (name === undefined) return undefined;
  const content = await readFile(join(top, name));
  const mistakes = await mistakesIn(content, name);
  if (mistakes.length > 0) throw new WrongUse(mistakes.join('\n'));
  return { name, text: content.toString() };
}

/** Writes a first one, by the files that are there. */
export async function writeFirstFile(top: string): Promise<RepositoryFile> {
  const [name = ''] = usual;
  const text = firstFile(await readdir(top));
  await writeFile(join(top, name), text, { flag: 'wx' });
  return { name, text };
}

export function firstFile(names: readonly string[]): string {
  const { name, command, why } = suggestedSuite(names);
  const because = why === undefined ? 'Write here how it is tested.' : `Chosen because there is a ${why}.`;
  return `# What Headrace runs on each commit. ${because}
# With image = "…" it runs in that image, without one with the programs of the machine.

[[suites]]
name = "${name}"
command = """
${command || 'ls -l'}
"""
`;
}
