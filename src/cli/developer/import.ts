import { constants } from 'node:fs';
import { lstat, open, realpath, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isUtf8 } from 'node:buffer';
import { bytes } from '../../shared/domain/bounds.ts';
import { RefusedError } from '../../shared/documents/mistakes.ts';
import { isWorkflowFile, ownFiles, usualFiles, usualFolders } from '../../shared/domain/workflow-files.ts';
import { importFiles, reference } from '../../shared/imports/index.ts';
import { codeOf } from '../../shared/lib/error-code.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { defaultBranchOf, topOf } from './git.ts';
import { plainFile } from './plain-file.ts';
import { clean, words } from './text.ts';

const [target = ''] = ownFiles;

/** Runs nothing, and needs no server. */
export async function run({ screen, options, cwd }: Call<{ force?: true }>, named: readonly string[]): Promise<void> {
  const top = (await topOf(cwd)) ?? cwd;
  if (options.force === undefined && (await exists(join(top, target))))
    throw new WrongUse(words`${target} is there already. To replace it, add --force.`);
  const paths = named.length > 0 ? named : await foundIn(top);
  if (paths.length === 0)
    throw new WrongUse(words`There is no file of another CI here: ${[...usualFolders, ...usualFiles].join(', ')}.`);
  const files: { path: string; text: string }[] = [];
  for (const path of paths)
    files.push({ path, text: await contentOf(named.length > 0 ? path : join(top, path), path) });
  const { parseYaml } = await import('../../shared/documents/yaml.ts');
  const imported = await importFiles(files, {
    parseYaml: (text) => Promise.resolve(parseYaml(text, [reference])),
    defaultBranch: await defaultBranchOf(cwd),
  }).catch((error: unknown) => {
    throw error instanceof RefusedError ? new WrongUse(error.lines.join('\n')) : error;
  });
  const { text, carried, total, lost, hints, mistakes, suites } = imported;
  await write(join(top, target), text);
  if (screen.isJson) {
    const places = lost.map(({ file, line = null, what, why }) => ({ file, line, what, why }));
    screen.json({ file: target, suites, carried, total, left_out: places, to_set: hints, mistakes });
  }
  screen.print(words`Wrote ${target}. Check it, set what is named below, and commit it.`);
  for (const hint of hints) screen.hint(clean(hint));
  for (const { file, line, what, why } of lost)
    screen.hint(words`${file}${line === undefined ? '' : `:${line}`}: ${what}: ${why}.`);
  for (const mistake of mistakes) screen.hint(clean(mistake));
  screen.hint(`${carried} of ${total} carried over`);
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    (error: unknown) => {
      if (codeOf(error) === 'ENOENT') return false;
      throw error;
    },
  );
}

/** In the order of the systems. Links and folders of that name are no files. */
async function foundIn(top: string): Promise<string[]> {
  const found: string[] = [];
  for (const folder of usualFolders) {
    // A link on the way could lead out of the repository.
    const place = join(await realpath(top), folder);
    const isFolder = (await realpath(place).catch(() => undefined)) === place && (await lstat(place)).isDirectory();
    const entries = isFolder ? await readdir(place, { withFileTypes: true }) : [];
    const names = entries.filter((one) => one.isFile() && isWorkflowFile(one.name)).map(({ name }) => name);
    found.push(...names.toSorted().map((name) => `${folder}/${name}`));
  }
  for (const name of usualFiles) if (await exists(join(top, name))) found.push(name);
  return found;
}

async function contentOf(place: string, path: string): Promise<string> {
  const content = await plainFile(place, bytes.configFile);
  if (content === undefined) throw new WrongUse(words`There is no ${path}.`);
  if (content.length <= bytes.configFile && !isUtf8(content)) throw new WrongUse(words`${path} is not UTF-8 text.`);
  return content.toString();
}

/** A link of that name is replaced, not followed. */
async function write(path: string, text: string): Promise<void> {
  const beside = `${path}.${randomName()}`;
  const file = await open(
    beside,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
    0o644,
  );
  try {
    await file.writeFile(text);
    await file.close();
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}
