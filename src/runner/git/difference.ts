import { dirname, join } from 'node:path/posix';
import { pathExists } from '../../shared/lib/path-exists.ts';
import type { Repository } from '../../shared/protocol/index.ts';
import { mirrorOf, sourceOf, type GitServices } from './sources.ts';

export interface DifferenceRequest extends Repository {
  /** Full SHAs. */
  from: string;
  to: string;
  signal: AbortSignal;
}

/** Paths whose files differ; names may hold any bytes, so they are latin1, which keeps every byte. */
export interface Difference {
  /** Files and links, and directories of which everything counts as different. */
  changed: string[];
  /** Directories from which something is gone. */
  lessened: string[];
}

const mostOutput = 32 * 1024 * 1024;
const isSha = (text: string): boolean => /^[0-9a-f]{40}([0-9a-f]{24})?$/.test(text);

/**
 * What differs in the files of two commits, as far as the mirror has them: nothing is fetched. Undefined where it does not
 * have both, or where there is more than anybody wants to hear of.
 */
export async function difference(services: GitServices, request: DifferenceRequest): Promise<Difference | undefined> {
  const { from, to, signal } = request;
  const mirror = mirrorOf(services, sourceOf({ ...request, privateKey: '', writeLog: () => {} }));
  if (!isSha(from) || !isSha(to) || !(await pathExists(mirror.gitDir, 'directory'))) return undefined;
  return services.sessions.use({ directory: mirror.gitDir, access: 'read', signal }, async (session) => {
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
    // Attributes say how git writes the files beside them and below.
    if (join('/', path).endsWith('/.gitattributes')) found.changed.push(dirname(path));
  }
  return found;
}
