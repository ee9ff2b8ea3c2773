import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import type { Repository } from './repository.ts';

/** A submodule: another repository on the same host, with its path, its address and a commit. */
export interface Submodule {
  path: string;
  url: string;
  sha: string;
}

/** Commits the content of a source archive to the main branch. Returns the SHA. */
export async function commitArchive(
  repository: Repository,
  archive: Buffer,
  submodules: readonly Submodule[] = [],
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-work-tree-'));
  try {
    const packed = join(folder, 'archive');
    const tree = join(folder, 'tree');
    mkdirSync(tree);
    writeFileSync(packed, archive);
    const unpacked = await run('tar', ['-xf', packed, '-C', tree, '--strip-components=1', '--no-same-owner']);
    if (unpacked.status !== 0) throw new Error(unpacked.stderr.toString());
    if (readdirSync(tree).length === 0) throw new Error('nothing was in the archive');
    if (submodules.length > 0) writeFileSync(join(tree, '.gitmodules'), submodules.map(entryOf).join(''));
    await repository.git(['--work-tree', tree, 'add', '--all', '--force']);
    for (const { path, sha } of submodules)
      await repository.git(['update-index', '--add', '--cacheinfo', `160000,${sha},${path}`]);
    const written = await repository.git(['write-tree']);
    const author = ['-c', 'user.name=Ada Author', '-c', 'user.email=ada@example.test'];
    const sha = await repository.git([...author, 'commit-tree', '-m', 'Publish', written]);
    await repository.overwrite('main', sha);
    return sha;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function entryOf({ path, url }: Submodule): string {
  return `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`;
}
