import { orNotYet, type Database } from '../db/open.ts';
import { memoized } from '../db/memo.ts';
import type { BuildRequestRow, CommitRow } from '../db/schema.ts';
import { UnavailableError } from '../db/unavailable.ts';
import { BusyThreadError, createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';
import { isExpression } from '../../shared/domain/rule-expressions.ts';
import { isQuick, evaluate, type RuleResult, type Question, type Texts } from './rules.ts';
import type { WriteContext } from './write-context.ts';

/** An expression may take seconds on a commit's texts. So slow rules run in a thread, where accounts take turns. */

/** Processor time for all rules of a project on one commit. */
const mostMilliseconds = 1000;

type RulesThread = WorkerThread<Question & { milliseconds: number }, RuleResult[]>;

const makeThread = (): RulesThread =>
  createWorkerThread('server/lifecycle/rules-worker.ts', {
    mostOfOne: 16,
    mostOfAll: 1024,
    timeoutMs: 60_000,
  });

export const closeRulesThread = (db: Database): Promise<void> => memoized(db, makeThread).close();

/** For callers without a transaction. `account` is the account whose turn it takes. */
export async function evaluateRules(db: Database, account: bigint, question: Question): Promise<RuleResult[]> {
  if (isQuick(question)) return evaluate(question);
  try {
    return await memoized(db, makeThread).ask(account, { ...question, milliseconds: mostMilliseconds });
  } catch (error) {
    if (error instanceof BusyThreadError) throw new UnavailableError('too many rules are to be judged at once');
    // The thread was ended, so no result is known.
    return question.suites.map(({ id, rules }) => {
      const slow = rules.find(({ operator }) => isExpression(operator)) ?? rules[0];
      return slow ? { id, slow } : { id };
    });
  }
}

export function evaluateRulesIn({ db, trx }: WriteContext, account: bigint, question: Question): RuleResult[] {
  if (isQuick(question)) return evaluate(question);
  return orNotYet(trx, JSON.stringify(question), () => evaluateRules(db, account, question));
}

export function textsOf(
  commit: CommitRow,
  request: Pick<BuildRequestRow, 'event' | 'target_branch' | 'from_fork' | 'head_sha'>,
): Texts {
  return {
    event: request.event,
    targetBranch: request.target_branch,
    fromFork: String(request.from_fork === 1),
    message: commit.message,
    branches: commit.branches,
    tags: commit.tags,
    files: commit.files,
    authorName: commit.scm_author_name,
    authorEmail: commit.scm_author_email,
    committerEmail: commit.scm_committer_email,
    ref: request.head_sha || commit.ref,
  };
}
