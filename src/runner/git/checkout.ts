import { copyFile, constants, link, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { runGroup } from '../../lib/process-groups.ts';
import { expectSuccess, git, longGit } from './git.ts';
import { whileSharing, type Mirror } from './mirror.ts';
import { mirrorOf, obtain, sourceOf, telling, withRepair } from './obtain.ts';
import type { Source, SourceRequest, Workshop } from './obtain.ts';
import { submodulesOf } from './submodules.ts';

/*
 * A work tree with a `.git` that stands alone: history, tags and remote branches are all there, so that
 * `git log` and `git describe` work wherever the folder is mounted, and nothing in it points outside.
 *
 * The objects are not copied where it can be helped. A file system that can clone files does that; otherwise the
 * packs are hard links to the mirror's. They stay the runner's own and read-only for everybody, also when the
 * work tree is given to another user, so a build can only replace them in its own layer, never write into them.
 * Who runs builds as the runner's own user must mount the folder read-only or copy it, which an overlay does.
 *
 * git writes the files without running any filter, hook or other program: none is configured, and what a
 * repository's attributes name are only names.
 */

export interface CheckoutRequest extends SourceRequest {
  /** The full SHA; it is fetched when this runner does not have it. */
  sha: string;
  /** The folder to make. It appears whole or not at all. */
  into: string;
  /** Whom the work tree belongs to, when that is not the runner's own user. */
  owner?: Owner | undefined;
}

export interface Owner {
  uid: number;
  gid: number;
}

/** Of submodules, also nested ones: a repository can name itself, and more than a disk can hold. */
const mostSubmodules = 100;

export async function checkout(workshop: Workshop, request: CheckoutRequest): Promise<void> {
  return telling(request.say, async () => {
    const source = sourceOf(request);
    const part = `${request.into}.part`;
    await mkdir(dirname(request.into), { recursive: true });
    try {
      await makeTree(workshop, source, request.sha, part, { left: mostSubmodules });
      if (request.owner !== undefined) await giveTo(request.owner, part, request.signal);
      await rename(part, request.into);
    } finally {
      await rm(part, { recursive: true, force: true });
    }
  });
}

async function makeTree(
  workshop: Workshop,
  source: Source,
  sha: string,
  folder: string,
  budget: { left: number },
): Promise<void> {
  const mirror = mirrorOf(workshop, source);
  await withRepair(workshop, source, async () => {
    await obtain(workshop, source, { asked: sha, fullSha: sha, places: [{ kind: 'sha', name: sha }] });
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    await makeGitDir(mirror, source, sha, join(folder, '.git'));
    await fillTree(source, sha, folder);
  });
  for (const { path, commit, address } of await submodulesOf(mirror, source, sha, folder)) {
    if (budget.left === 0) {
      source.narrator.line(`Submodule ${path} is left out: there are more than ${mostSubmodules} in all.`);
      continue;
    }
    budget.left -= 1;
    source.narrator.line(`Submodule ${path}: ${commit} of ${address.url}.`);
    await makeTree(workshop, { ...source, address }, commit, join(folder, path), budget);
  }
}

async function makeGitDir(mirror: Mirror, source: Source, sha: string, gitDir: string): Promise<void> {
  const folders = ['', 'objects', 'objects/pack', 'objects/info', 'refs', 'refs/heads', 'refs/tags'];
  for (const name of folders) await mkdir(join(gitDir, name), { recursive: true });
  const files = {
    HEAD: `${sha}\n`,
    config: configFor(source.address.url),
    'packed-refs': await whileSharing(mirror, source.signal, async () => {
      await shareObjects(join(mirror.gitDir, 'objects'), join(gitDir, 'objects'));
      return packedRefs(mirror);
    }),
  };
  for (const [name, content] of Object.entries(files)) await writeFile(join(gitDir, name), content, 'latin1');
}

/** An overlay or a copy changes inode numbers and times of change; git must not read every file again for that. */
function configFor(url: string): string {
  return `[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tcheckStat = minimal
\ttrustctime = false
[remote "origin"]
\turl = "${Buffer.from(url.replaceAll(/["\\]/g, '\\$&')).toString('latin1')}"
\tfetch = +refs/heads/*:refs/remotes/origin/*
`;
}

async function shareObjects(from: string, to: string): Promise<void> {
  const packs = await readdir(join(from, 'pack'));
  for (const name of packs.filter((file) => /^pack-.*\.(pack|idx|rev)$/.test(file))) {
    await share(join(from, 'pack', name), join(to, 'pack', name));
  }
}

async function share(from: string, to: string): Promise<void> {
  try {
    await copyFile(from, to, constants.COPYFILE_FICLONE_FORCE);
  } catch {
    await link(from, to).catch(() => copyFile(from, to)); // the last one: on another file system
  }
}

/** Names may hold any bytes, so they pass through as latin1, which keeps every byte. */
async function packedRefs(mirror: Mirror): Promise<string> {
  const format = '--format=%(objectname)%00%(*objectname)%00%(refname)';
  const listed = await git(mirror.gitDir, ['for-each-ref', format, 'refs/heads', 'refs/tags'], {
    maxOutput: 256 * 1024 * 1024,
  });
  const lines = expectSuccess('listing refs', listed).stdout.toString('latin1').split('\n').filter(Boolean);
  const refs = lines.map((line) => {
    const [sha = '', peeled = '', name = ''] = line.split('\0');
    const here = name.replace(/^refs\/heads\//, 'refs/remotes/origin/');
    return `${sha} ${here}\n${peeled === '' ? '' : `^${peeled}\n`}`;
  });
  return `# pack-refs with: peeled fully-peeled \n${refs.join('')}`;
}

async function fillTree(source: Source, sha: string, folder: string): Promise<void> {
  const args = ['--git-dir=.git', '--work-tree=.', 'read-tree', '--reset', '-u', '--no-recurse-submodules', sha];
  const finished = await longGit(args, { cwd: folder, signal: source.signal });
  expectSuccess('writing the work tree', finished);
}

/** Gives everything away but the objects, which may be the mirror's own files. */
async function giveTo(owner: Owner, folder: string, signal: AbortSignal): Promise<void> {
  const objects = ['-path', '*/.git/objects/pack/*', '-prune'];
  const change = ['-exec', 'chown', '--no-dereference', `${owner.uid}:${owner.gid}`, '{}', '+'];
  const finished = await runGroup('find', ['.', ...objects, '-o', ...change], { cwd: folder, signal });
  if (finished.status !== 0) throw new Error(`the work tree cannot be given away: ${finished.stderr.toString()}`);
}
