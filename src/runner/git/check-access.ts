import { join } from 'node:path';
import { randomName } from '../../shared/lib/random-name.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { linesOf } from './git.ts';
import { init, makeFolder } from './mirror.ts';
import { expectAnswer, headIn, talk, type Remote } from './remote.ts';
import { reach, type GitDeps } from './sources.ts';
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

/** Works in its own folder, so that no fetch has to wait. Stores nothing. */
export async function checkAccess(deps: GitDeps, request: UnloggedRequest): Promise<Access> {
  const folder = join(deps.dir, `look-${randomName()}`);
  try {
    await makeFolder(folder, deps.sessions.owner);
    return await withoutLog(request, (source) =>
      reach(deps, source, (remote) => {
        const way = remote.way('git-upload-pack');
        const { signal } = source;
        return deps.sessions.use({ directory: folder, access: 'write', signal, way }, (session) =>
          checkAccessIn(session, remote),
        );
      }),
    );
  } finally {
    await removeTree(folder);
  }
}

async function checkAccessIn(session: Session, remote: Remote): Promise<Access> {
  await init(session);
  const args = ['ls-remote', '--symref', '--end-of-options', remote.url, 'HEAD', 'refs/heads/*'];
  const listed = expectAnswer('looking at the repository', remote, await talk(session, remote, args));
  const branches = linesOf(listed).flatMap(
    (line) => /^[0-9a-f]{40,64}\trefs\/heads\/(\S{1,512})$/.exec(line)?.[1] ?? [],
  );
  const named = headIn(listed)?.slice('refs/heads/'.length);
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
    return linesOf(listed, '\0', mostFiles);
  } catch {
    return []; // the names are optional: the check is about the connection
  }
}
