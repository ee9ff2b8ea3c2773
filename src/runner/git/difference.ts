import { dirname, join } from 'node:path/posix';
import { pathExists } from '../../shared/lib/path-exists.ts';
import type { Repository } from '../../shared/protocol/index.ts';
import { mirrorOf, sourceOf, type GitDeps } from './sources.ts';

export interface DifferenceRequest extends Repository {
  from: string;
  to: string;
  signal: AbortSignal;
}

/** Paths in latin1, which preserves names of any bytes. */
export interface Difference {
  /** Files and links, and directories that count as changed in full. */
  changed: string[];
  /** Directories that lost an entry. */
  lessened: string[];
}

const mostOutput = 32 * 1024 * 1024;
const isSha = (text: string): boolean => /^[0-9a-f]{40}([0-9a-f]{24})?$/.test(text);

/** Fetches nothing. Undefined if the mirror lacks a commit, or if there are too many changes. */
export async function difference(deps: GitDeps, request: DifferenceRequest): Promise<Difference | undefined> {
  const { from, to, signal } = request;
  const mirror = mirrorOf(deps, sourceOf({ ...request, privateKey: '', writeLog: () => {} }));
  if (!isSha(from) || !isSha(to) || !(await pathExists(mirror.gitDir, 'directory'))) return undefined;
  return deps.sessions.use({ directory: mirror.gitDir, access: 'read', signal }, async (session) => {
    const compare = ['diff-tree', '-r', '-z', '--raw', '--no-renames', `${from}^{tree}`, `${to}^{tree}`];
    const { status, truncated, stdout } = await session.git(compare, { maxOutput: mostOutput });
    return status === 0 && !truncated ? differenceIn(stdout.toString('latin1')) : undefined;
  });
}

function differenceIn(listed: string): Difference {
  const found: Difference = { changed: [], lessened: [] };
  const fields = listed.split('\0');
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [facts = '', path = ''] = [fields[at], fields[at + 1]];
    if (facts.endsWith(' D')) found.lessened.push(dirname(path));
    else found.changed.push(path);
    // Attributes decide how git writes the files in their directory and below it.
    if (join('/', path).endsWith('/.gitattributes')) found.changed.push(dirname(path));
  }
  return found;
}
