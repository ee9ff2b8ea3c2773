import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bytes } from '../../shared/domain/bounds.ts';
import { suggestedSuite } from '../../shared/domain/suggested-suite.ts';
import { ownFiles } from '../../shared/domain/workflow-files.ts';
import { mistakesIn } from './check.ts';
import { WrongUse } from './errors.ts';
import { plainFile } from './plain-file.ts';

/** The file at the top of the work tree that sets how the repository is built. */
export interface RepositoryFile {
  name: string;
  text: string;
}

/** Undefined if there is none. A file with a mistake is refused. */
export async function repositoryFile(top: string): Promise<RepositoryFile | undefined> {
  const names = new Set(await readdir(top));
  const name = ownFiles.find((one) => names.has(one));
  if (name === undefined) return undefined;
  const content = await plainFile(join(top, name), bytes.configFile);
  if (content === undefined) return undefined;
  const mistakes = await mistakesIn(content, name);
  if (mistakes.length > 0) throw new WrongUse(mistakes.join('\n'));
  return { name, text: content.toString() };
}

/** `ask` returns the command if the present files do not suggest one. */
export async function writeFirstFile(top: string, ask: () => Promise<string>): Promise<RepositoryFile> {
  const [name = ''] = ownFiles;
  const names = await readdir(top);
  const text = firstFile(names, suggestedSuite(names).command === '' ? await ask() : '');
  await writeFile(join(top, name), text, { flag: 'wx' });
  return { name, text };
}

const nothingKnown = "echo 'The repository is fetched. Write the test command into .headrace.toml.'";

export function firstFile(names: readonly string[], typed = ''): string {
  const { name, command, why } = suggestedSuite(names);
  const toWrite = typed === '' ? ' Write here how it is tested.' : '';
  return `# What Headrace runs on each commit.${why === undefined ? toWrite : ` Chosen because there is a ${why}.`}
# With image = "…" it runs in that image, without one with the programs of the machine.

[[suites]]
name = "${name}"
command = ${typed === '' ? `"""\n${command || nothingKnown}\n"""` : JSON.stringify(typed)}
`;
}
