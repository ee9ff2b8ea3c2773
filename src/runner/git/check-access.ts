import { lchown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { randomName } from '../../shared/lib/random-name.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { expectSuccess, GitError } from './git.ts';
import { talk, type Remote } from './mirror.ts';
import { reach, type GitServices } from './sources.ts';
import type { Session } from './session.ts';
import { withoutLog, type UnloggedRequest } from './without-log.ts';

export interface Access {
  defaultBranch: string | null;
  branches: string[];
  /** The names at the top of the default branch; empty if they could not be read in time. */
  files: string[];
}

const mostBranches = 1000;
const mostFiles = 1000;

/** Works in its own folder, so that no fetch has to wait, and stores nothing. */
export async function checkAccess(services: GitServices, request: UnloggedRequest): Promise<Access> {
  const folder = join(services.dir, `look-${randomName()}`);
  try {
    await mkdir(folder, { mode: 0o700 });
    await lchown(folder, services.sessions.owner.uid, services.sessions.owner.gid);
    return await withoutLog(request, (source) =>
      reach(services, source, (remote) => {
        const way = remote.way('git-upload-pack');
        const { signal } = source;
        return services.sessions.use({ directory: folder, access: 'write', signal, way }, (session) =>
          checkAccessIn(session, remote),
        );
      }),
    );
  } finally {
    await removeTree(folder);
  }
}

async function checkAccessIn(session: Session, remote: Remote): Promise<Access> {
  const how = ['init', '--quiet', '--bare', '--template=', '--initial-branch=headrace'];
  expectSuccess('making a folder to look from', await session.git(how));
  const args = ['ls-remote', '--symref', '--end-of-options', remote.url, 'HEAD', 'refs/heads/*'];
  const listed = await talk(session, remote, args);
  if (listed.status !== 0) {
    throw remote.explain(listed) ?? new GitError('looking at the repository', listed);
  }
  const lines = listed.stdout.toString().split('\n');
  const branches = lines.flatMap((line) => /^[0-9a-f]{40,64}\trefs\/heads\/(\S{1,512})$/.exec(line)?.[1] ?? []);
  const named = lines.flatMap((line) => /^ref: refs\/heads\/(\S{1,512})\tHEAD$/.exec(line)?.[1] ?? [])[0];
  const defaultBranch = named !== undefined && branches.includes(named) ? named : null;
  const files = defaultBranch === null ? [] : await filesOf(session, remote, defaultBranch);
  return { defaultBranch, branches: branches.slice(0, mostBranches), files };
}

/** Fetches only the top tree of the newest commit, if the remote supports that. */
async function filesOf(session: Session, remote: Remote, branch: string): Promise<string[]> {
  try {
    const how = ['fetch', '--quiet', '--no-tags', '--no-write-fetch-head', '--depth=1', '--filter=tree:1'];
    const args = [...how, '--end-of-options', remote.url, `+refs/heads/${branch}:refs/heads/look`];
    const fetched = await talk(session, remote, args);
    if (fetched.status !== 0) return [];
    const listed = await session.git(['ls-tree', '-z', '--name-only', 'refs/heads/look']);
    return listed.stdout
      .toString()
      .split('\0')
      .slice(0, mostFiles)
      .filter((name) => name !== '');
  } catch {
    return []; // the connection works, and that was the question
  }
}
