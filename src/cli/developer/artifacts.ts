import { lstat, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '../client/client.ts';
import { Failure } from '../client/failure.ts';
import type { Answered } from '../client/operations.ts';
import { formatBytes } from '../../shared/lib/byte-units.ts';
import { codeOf } from '../../shared/lib/error-code.ts';
import { isPlainPath } from '../../shared/lib/file-types.ts';
import { globMatcher } from '../../shared/domain/globs.ts';
import type { Call } from './call.ts';
import { download } from './download.ts';
import { WrongUse } from './errors.ts';
import { findBuild } from './named-build.ts';
import { ProgressBar } from './progress.ts';
import { words } from './text.ts';

type Artifact = Answered<'artifacts'>[number];
type BuildParams = Readonly<{ project_id: string; build_id: string }>;

export async function run(call: Call<{ output?: string }>, named: string, pattern?: string): Promise<void> {
  const { client, screen } = call;
  const isMeant = pattern === undefined ? () => true : globMatcher(pattern);
  if (!isMeant) throw new WrongUse(words`${pattern ?? ''} is not a file pattern, such as dist, *.log or **/*.xml`);
  const project = await call.project();
  const build = await findBuild(call, project, named);
  const params = { project_id: project.id_str, build_id: build.id_str };
  const found = (await listed(client, params)).filter(({ path }) => isMeant(path));
  const { output: folder } = call.options;
  if (folder === undefined && screen.isJson) return screen.json(found);
  if (found.length === 0) {
    const none = `Build ${build.id_str} has no artifacts${pattern === undefined ? '' : ' that match'}.`;
    if (folder !== undefined) throw new WrongUse(none);
    return screen.print(none);
  }
  if (folder !== undefined) return fetchAll(call, params, found, folder);
  screen.table(
    [
      { title: 'PATH', gives: 1 },
      { title: 'SIZE', isNumber: true },
      { title: 'SHA-256', gives: 2 },
    ],
    found.map((one) => [one.path, formatBytes(one.size), one.sha256]),
  );
}

/** Sorted by path. */
async function listed(client: Client, params: BuildParams): Promise<Artifact[]> {
  const all: Artifact[] = [];
  const limit = 1000;
  for (let before: string | undefined; ;) {
    const some = await client.call('artifacts', params, { limit: String(limit), before });
    all.push(...some);
    if (some.length < limit) return all.toSorted((a, b) => (a.path < b.path ? -1 : 1));
    before = some.at(-1)?.id_str;
  }
}

/** Paths come from a build, and files in the folder may come from anyone. */
async function fetchAll(
  call: Call,
  params: BuildParams,
  artifacts: readonly Artifact[],
  folder: string,
): Promise<void> {
  const { client, screen } = call;
  for (const { path } of artifacts)
    if (!isHarmless(path))
      throw new Failure('unavailable', words`${path} is not a valid path in ${folder}. Nothing was downloaded.`);
  const count = `${artifacts.length} ${artifacts.length === 1 ? 'file' : 'files'}`;
  const bar = new ProgressBar(
    screen,
    `fetching ${count}`,
    artifacts.reduce((sum, one) => sum + one.size, 0),
  );
  let done = 0;
  const onBytes = (bytes: number): void => bar.at((done += bytes));
  try {
    await mkdir(folder, { recursive: true });
    for (const { id_str: id, path, size: most, sha256 } of artifacts) {
      const file = join(await parentOf(folder, path), path.split('/').at(-1) ?? '');
      const bytes = await client.bytes('artifact', { ...params, artifact_id: id });
      await download(bytes, file, { what: path, sha256, size: most, mode: 0o666, onBytes });
    }
  } catch (error) {
    if (['EISDIR', 'ENOTDIR', 'EEXIST', 'EACCES', 'ENOTEMPTY', 'ENOSPC'].includes(codeOf(error)))
      throw new WrongUse(words`Cannot write to ${folder}: ${(error as Error).message}`);
    throw error;
  } finally {
    bar.end();
  }
  if (screen.isJson) screen.json(artifacts);
}

/** Files that git reads in a work tree can make it run programs, so none is written there. */
function isHarmless(path: string): boolean {
  return isPlainPath(path) && path.split('/').every((name) => name.toLowerCase() !== '.git');
}

/** Creates the folder of a file. Follows no link. */
async function parentOf(folder: string, path: string): Promise<string> {
  let at = folder;
  for (const name of path.split('/').slice(0, -1)) {
    at = join(at, name);
    const found = await lstat(at).catch(() => undefined);
    if (!found) await mkdir(at);
    else if (!found.isDirectory())
      throw new WrongUse(words`${at} is a link or a file, not a folder. Choose another folder with -o.`);
  }
  return at;
}
