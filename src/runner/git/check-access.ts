import { join } from 'node:path';
import type { WorkflowFile } from '../../shared/domain/workflow-files.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { linesOf } from './git.ts';
import { init, makeFolder } from './mirror.ts';
import { expectAnswer, headIn, talk, type Remote } from './remote.ts';
import { reach, type GitDeps } from './sources.ts';
import type { Session } from './session.ts';
import { withoutLog, type UnloggedRequest } from './without-log.ts';
import { readWorkflows } from './workflow-files.ts';

export interface Access {
  defaultBranch: string | null;
  branches: string[];
  /** The names at the top of the default branch, and files of other CI systems; empty if not read in time. */
  files: string[];
  workflows: WorkflowFile[];
}

const mostBranches = 1000;
const mostFiles = 1000;

/** Works in its own folder, so that no fetch has to wait. Stores nothing. */
export async function checkAccess(deps: GitDeps, request: UnloggedRequest): Promise<Access> {
  const folder = join(deps.dir, `look-${randomName()}`);
  // The rest of the time is for the answer: a call that lasts too long would end the whole check.
  const until = performance.now() + request.timeoutMs / 2;
  const timeLeft = (): boolean => performance.now() < until;
  try {
    await makeFolder(folder, deps.sessions.owner);
    return await withoutLog(request, (source) =>
      reach(deps, source, (remote) => {
        const way = remote.way('git-upload-pack');
        const { signal } = source;
        return deps.sessions.use({ directory: folder, access: 'write', signal, way }, (session) =>
          checkAccessIn(session, remote, timeLeft),
        );
      }),
    );
  } finally {
    await removeTree(folder);
  }
}

async function checkAccessIn(session: Session, remote: Remote, timeLeft: () => boolean): Promise<Access> {
  await init(session);
  const args = ['ls-remote', '--symref', '--end-of-options', remote.url, 'HEAD', 'refs/heads/*'];
  const listed = expectAnswer('looking at the repository', remote, await talk(session, remote, args));
  const branches = linesOf(listed).flatMap(
    (line) => /^[0-9a-f]{40,64}\trefs\/heads\/(\S{1,512})$/.exec(line)?.[1] ?? [],
  );
  const named = headIn(listed)?.slice('refs/heads/'.length);
  const defaultBranch = named !== undefined && branches.includes(named) ? named : null;
  const look = defaultBranch === null ? nothing : await lookAt(session, remote, defaultBranch, timeLeft);
  return { defaultBranch, branches: branches.slice(0, mostBranches), ...look };
}

const nothing = { files: [], workflows: [] };

/** Fetches only the top tree of the newest commit, and what the workflow files need, if the remote supports that. */
async function lookAt(
  session: Session,
  remote: Remote,
  branch: string,
  timeLeft: () => boolean,
): Promise<Pick<Access, 'files' | 'workflows'>> {
  const ref = 'refs/heads/look';
  let files: string[] = [];
  try {
    const how = ['fetch', '--quiet', '--no-tags', '--no-write-fetch-head', '--depth=1', '--filter=tree:1'];
    const fetched = await talk(session, remote, [
      ...how,
      '--end-of-options',
      remote.url,
      `+refs/heads/${branch}:${ref}`,
    ]);
    if (fetched.status !== 0) return nothing;
    files = linesOf(await session.git(['ls-tree', '-z', '--name-only', ref]), '\0', mostFiles);
    return { files, workflows: await readWorkflows({ session, remote, ref, timeLeft }, files) };
  } catch {
    return { files, workflows: [] }; // they are optional: the check is about the connection
  }
}
