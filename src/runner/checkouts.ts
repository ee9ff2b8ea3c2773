import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { randomName } from '../shared/lib/random-name.ts';
import { removeTree } from '../shared/lib/remove-tree.ts';
import type { Repository } from '../shared/protocol/index.ts';
import type { CheckoutRequest, Misses } from './git/checkout.ts';
import type { Mirrors } from './git/mirrors.ts';
import type { WriteLog } from './git/narrator.ts';
import type { CredentialSource, KeySource } from './git/sources.ts';

/**
 * One work tree per commit, shared by all its suites and kept until room is needed. A fork's work tree lacks parts, so
 * a commit that was merged since then gets a new one.
 */
export interface Checkouts {
  of(source: RepositoryWithKey, commit: WantedCommit, writeLog: WriteLog, signal: AbortSignal): Promise<Checkout>;
  forget(projectId: string): Promise<void>;
}

export interface RepositoryWithKey extends Repository {
  privateKey: KeySource;
  credential?: CredentialSource | undefined;
}

type WantedCommit = Pick<CheckoutRequest, 'sha' | 'fetchRef' | 'isFork'>;

export interface Checkout extends Disposable {
  path: string;
  misses: readonly string[];
}

/** Limits on unused work trees. Forks have fewer, because each has a copy of the history. */
const mostKept = 32;
const mostOfForksKept = 4;

interface Entry {
  path: string;
  ready: Promise<Misses>;
  users: number;
  projectId: string;
  isFork: boolean;
}

export async function openCheckouts(
  folder: string,
  mirrors: Pick<Mirrors, 'checkout'>,
  log: (message: string) => void,
): Promise<Checkouts> {
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const remove = async (path: string): Promise<void> => {
    // Every work tree has its own name, so this path is not used again. The runner's next start retries.
    await removeTree(path).catch((error: unknown) =>
      log(`cleanup failed, the work tree ${path} stays on the disk: ${String(error)}`),
    );
  };
  // A work tree of an earlier runner may be incomplete, or belong to another build user.
  for (const name of await readdir(folder)) await remove(join(folder, name));
  const entries = new Map<string, Entry>();

  const makeRoom = (): void => {
    for (const most of [mostKept, mostOfForksKept]) {
      const idle = [...entries].filter(([, { users, isFork }]) => users === 0 && isFork === (most === mostOfForksKept));
      for (const [name, entry] of idle.slice(0, Math.max(0, idle.length - most))) {
        entries.delete(name);
        void remove(entry.path);
      }
    }
  };

  return {
    async forget(projectId) {
      for (const [name, entry] of entries) {
        if (entry.users > 0 || entry.projectId !== projectId) continue;
        entries.delete(name);
        await remove(entry.path);
      }
    },
    async of(source, { sha, fetchRef, isFork = true }, writeLog, signal) {
      const name = `${source.projectId}-${sha}${isFork ? '-fork' : ''}`;
      let entry = entries.get(name);
      if (!entry) {
        const path = join(folder, `${name}-${randomName()}`);
        const { projectId, repositoryUrl, privateKey, credential } = source;
        const commit = { sha, ...(fetchRef !== undefined && { fetchRef }), isFork };
        const request = { projectId, repositoryUrl, privateKey, credential, ...commit, into: path, writeLog, signal };
        entry = { path, ready: mirrors.checkout(request), users: 0, projectId, isFork };
        entries.set(name, entry);
        entry.ready.catch(() => entries.delete(name));
      } else {
        entries.delete(name); // puts it at the end: what was used last is removed last
        entries.set(name, entry);
      }
      const mine = entry;
      mine.users += 1;
      try {
        const { sentences, areLasting } = await mine.ready;
        // The next work tree may be complete, so this one serves only suites that waited for it.
        if (!areLasting && entries.get(name) === mine) entries.delete(name);
        return {
          path: mine.path,
          misses: sentences,
          [Symbol.dispose]() {
            mine.users -= 1;
            if (!areLasting && mine.users === 0) void remove(mine.path);
            makeRoom();
          },
        };
      } catch (error) {
        mine.users -= 1;
        throw error;
      }
    },
  };
}
