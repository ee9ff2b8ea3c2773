import { lchown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { randomName } from '../../lib/random-name.ts';
import { removeTree } from '../../lib/remove-tree.ts';
import { FetchError, recognize } from './failures.ts';
import { expectSuccess, GitError } from './git.ts';
import { talk, type Remote } from './mirror.ts';
import { reach, reason, sourceOf, type GitServices, type SourceRequest } from './obtain.ts';
import type { Session } from './session.ts';

export interface LookRequest extends Omit<SourceRequest, 'say'> {
  timeoutMs: number;
}

/** What a check of a repository finds. */
export interface Looked {
  defaultBranch: string | null;
  branches: string[];
  /** The names at the top of the default branch; empty where they could not be read in time. */
  files: string[];
}

const mostBranches = 1000;
const mostFiles = 1000;
const longestSaid = 2000;

/**
 * Looks at a repository without keeping any of it: its branches, and the names at the top of the default branch. It
 * works in a folder of its own, so that no fetch has to wait.
 */
export async function look(services: GitServices, request: LookRequest): Promise<Looked> {
  const heard: string[] = [];
  const source = sourceOf({ ...request, say: (text) => void heard.push(text.toString()) });
  const late = new AbortController();
  const tooLate = reason(source, 'host_unreachable');
  const timer = setTimeout(() => late.abort(tooLate), request.timeoutMs);
  const signal = AbortSignal.any([request.signal, late.signal]);
  const folder = join(services.dir, `look-${randomName()}`);
  try {
    await mkdir(folder, { mode: 0o700 });
    await lchown(folder, services.sessions.owner.uid, services.sessions.owner.gid);
    return await reach(services, { ...source, signal }, (remote) =>
      services.sessions.use({ directory: folder, access: 'write', signal }, (session) => lookIn(session, remote)),
    );
  } catch (error) {
    if (late.signal.aborted && !(error instanceof FetchError)) throw tooLate;
    if (!(error instanceof FetchError)) throw error;
    // Some advice refers to the output before it.
    const said = heard.join('').trim().slice(-longestSaid);
    throw new FetchError(error.kind, said === '' ? error.message : `${said}\n${error.message}`);
  } finally {
    clearTimeout(timer);
    await removeTree(folder);
  }
}

async function lookIn(session: Session, remote: Remote): Promise<Looked> {
  const how = ['init', '--quiet', '--bare', '--template=', '--initial-branch=headrace'];
  expectSuccess('making a folder to look from', await session.git(how));
  const args = ['ls-remote', '--symref', '--end-of-options', remote.url, 'HEAD', 'refs/heads/*'];
  const listed = await talk(session, remote, 'git-upload-pack', args);
  if (listed.status !== 0) {
    const kind = recognize(listed.stderr, listed.ssh);
    throw kind === undefined ? new GitError('looking at the repository', listed) : remote.failure(kind);
  }
  const lines = listed.stdout.toString().split('\n');
  const branches = lines.flatMap((line) => /^[0-9a-f]{40,64}\trefs\/heads\/(\S{1,512})$/.exec(line)?.[1] ?? []);
  const named = lines.flatMap((line) => /^ref: refs\/heads\/(\S{1,512})\tHEAD$/.exec(line)?.[1] ?? [])[0];
  const defaultBranch = named !== undefined && branches.includes(named) ? named : null;
  const files = defaultBranch === null ? [] : await filesOf(session, remote, defaultBranch);
  return { defaultBranch, branches: branches.slice(0, mostBranches), files };
}

/** Fetches the top tree of the newest commit only, where the remote supports such a small fetch. */
async function filesOf(session: Session, remote: Remote, branch: string): Promise<string[]> {
  try {
    const how = ['fetch', '--quiet', '--no-tags', '--no-write-fetch-head', '--depth=1', '--filter=tree:1'];
    const args = [...how, '--end-of-options', remote.url, `+refs/heads/${branch}:refs/heads/look`];
    const fetched = await talk(session, remote, 'git-upload-pack', args);
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
