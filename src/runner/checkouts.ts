import { messageOf } from '../shared/lib/error-code.ts';
import type { Repository } from '../shared/protocol/index.ts';
import type { CheckoutRequest, Misses } from './git/checkout.ts';
import type { Mirrors } from './git/mirrors.ts';
import type { WriteLog } from './git/narrator.ts';
import type { CredentialSource, KeySource } from './git/sources.ts';
import { openTreeStore, type Making } from './tree-store.ts';

/**
 * One work tree per commit, shared by all its suites and retained until its room is needed. A fork's work tree lacks
 * parts, so the commit gets another work tree after it was merged. Builds that see no history have another one, too.
 */
export interface Checkouts {
  of(source: RepositoryWithKey, commit: WantedCommit, writeLog: WriteLog, signal: AbortSignal): Promise<Checkout>;
  /** What such a work tree lacks, if it is here. */
  missesIn(projectId: string, commit: WantedCommit): readonly string[] | undefined;
  forget(projectId: string): Promise<void>;
}

export interface RepositoryWithKey extends Repository {
  privateKey: KeySource;
  credential?: CredentialSource | undefined;
}

type WantedCommit = Pick<CheckoutRequest, 'sha' | 'fetchRef' | 'isFork' | 'merge' | 'isSealed'>;

export interface Checkout extends Disposable {
  path: string;
  misses: readonly string[];
}

/** Limits on unused work trees. The limit for forks is lower, because each has a copy of the history. */
const mostKept = 32;
const mostOfForksKept = 4;

interface CheckoutFacts extends Misses {
  project: string;
  /** A copy of its own. */
  hasHistory: boolean;
}

const nameOf = (project: string, { sha, isFork = true, isSealed = false }: WantedCommit): string =>
  `${project}-${sha}${isFork ? '-fork' : ''}${isSealed ? '-sealed' : ''}`;

export async function openCheckouts(
  folder: string,
  mirrors: Pick<Mirrors, 'checkout'>,
  log: (message: string) => void,
): Promise<Checkouts> {
  // Work trees of an earlier runner are not reused: they may belong to another build user.
  const store = await openTreeStore<CheckoutFacts>({ folder, outlives: 'nothing', log });
  const makeRoom = async (): Promise<void> => {
    for (const [haveHistory, most] of [
      [false, mostKept],
      [true, mostOfForksKept],
    ] as const) {
      const idle = store.all().filter(({ users, facts }) => users === 0 && facts.hasHistory === haveHistory);
      for (const { name } of idle.slice(0, Math.max(0, idle.length - most))) await store.remove(name);
    }
  };

  return {
    forget: store.forget,
    missesIn: (project, commit) => store.get(nameOf(project, commit))?.facts.sentences,
    async of(source, wanted, writeLog, signal) {
      const { sha, fetchRef, isFork = true, merge, isSealed = false } = wanted;
      const { projectId: project, repositoryUrl, privateKey, credential } = source;
      const make = async ({ tree }: Making, ending: AbortSignal): Promise<CheckoutFacts> => {
        const commit = { sha, ...(fetchRef !== undefined && { fetchRef }), isFork, ...(merge && { merge }), isSealed };
        const repository = { projectId: project, repositoryUrl, privateKey, credential };
        const misses = await mirrors.checkout({ ...repository, ...commit, into: tree, writeLog, signal: ending });
        return { project, hasHistory: isFork && !isSealed, ...misses };
      };
      const held = await store.take(nameOf(project, wanted), make, signal);
      const { sentences, areLasting } = held.facts;
      // A new work tree may be complete, so this one serves only the suites that already waited for it.
      if (!areLasting) store.retire(held);
      return {
        path: held.path,
        misses: sentences,
        [Symbol.dispose]() {
          held[Symbol.dispose]();
          makeRoom().catch((error: unknown) => log(`cleanup of work trees failed: ${messageOf(error)}`));
        },
      };
    },
  };
}
