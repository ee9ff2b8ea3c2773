import { memoized } from '../db/memo.ts';
import type { Database, Queries } from '../db/open.ts';
import type { Blobs } from '../db/blobs.ts';
import type { BuildRow } from '../db/schema.ts';
import { bytes, most } from '../../shared/domain/bounds.ts';
import { sha256 } from '../../shared/lib/sha256.ts';
import { createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';
import { keepLineHashes, lineHashesOf } from '../streams/line-hashes.ts';
import { lineIndex } from '../streams/line-index.ts';
import { findLog, readLog } from '../streams/logs.ts';
import { piecesOf } from '../streams/search.ts';
import { add, emptySet, packSet, unpackHashes, type HashSet } from './hash-set.ts';
import { failedStep, isRed } from './failed-step.ts';
import type { HashesAnswer, HashesTask, EndingTask, JoinTask, NewLinesAnswer, NewLinesTask, Task } from './tasks.ts';

export interface BriefThread {
  ask: WorkerThread<HashesTask | EndingTask | JoinTask, HashesAnswer>['ask'] &
    WorkerThread<NewLinesTask, NewLinesAnswer>['ask'];
  close(): Promise<void>;
}

const makeThread = (): BriefThread => {
  const limits = { mostOfOne: 8, mostOfAll: 64, timeoutMs: 10_000 };
  return createWorkerThread<Task, HashesAnswer | NewLinesAnswer>('server/briefs/worker.ts', limits) as BriefThread;
};

export const briefThread = (database: Database): BriefThread => memoized(database, makeThread);
export const closeBriefThread = (database: Database): Promise<void> => briefThread(database).close();

export interface LogParts {
  database: Database;
  db: Queries;
  blobs: Blobs;
}

export type Run = Pick<
  BuildRow,
  | 'id'
  | 'build_state'
  | 'exit_status'
  | 'failure_reason'
  | 'steps'
  | 'usage'
  | 'started_at'
  | 'finished_at'
  | 'output_from'
  | 'output_to'
>;

export const runColumns = [
  'id',
  'build_state',
  'exit_status',
  'failure_reason',
  'steps',
  'usage',
  'started_at',
  'finished_at',
  'output_from',
  'output_to',
] as const satisfies readonly (keyof Run)[];

/** Of the output, for the hashes of its end. */
const endingBytes = 64 * 1024;

/** Of a passed run, all lines. Of another, the end by which it compares with others. */
async function makeHashes(parts: LogParts, account: bigint, run: Run): Promise<Buffer> {
  return packSet(
    run.build_state === 'passed' ? await allLines(parts, account, run.id) : await ending(parts, account, run),
  );
}

async function allLines(parts: LogParts, account: bigint, id: bigint): Promise<HashSet> {
  let answer: HashesAnswer = { set: emptySet(most.lineHashes), count: 0 };
  const index = await lineIndex(parts, id);
  if (!index) return answer.set;
  let left: number = bytes.comparedLog;
  for await (const { bytes: piece } of piecesOf(parts, index, 1, index.total)) {
    left -= piece.length;
    const task: HashesTask = { kind: 'hashes', ...answer, most: most.lineHashes, bytes: piece };
    answer = await briefThread(parts.database).ask(account, task, [answer.set.buffer, piece.buffer]);
    if (left <= 0 || answer.count >= most.lineHashes) break;
  }
  return answer.set;
}

async function ending(parts: LogParts, account: bigint, run: Run): Promise<HashSet> {
  const to = run.output_to ?? (await findLog(parts.db, run.id))?.size ?? 0n;
  const from = [run.output_from ?? 0n, to - BigInt(endingBytes)].reduce((a, b) => (a > b ? a : b), 0n);
  const pieces: Buffer[] = [];
  for await (const piece of readLog(parts.db, parts.blobs, run.id, from, to)) pieces.push(piece);
  const text = Uint8Array.from(Buffer.concat(pieces));
  const { set } = await briefThread(parts.database).ask(account, { kind: 'ending', bytes: text }, [text.buffer]);
  const facts = [failedStep(run)?.name ?? '', run.exit_status, run.failure_reason];
  add(set, Number.parseInt(sha256(JSON.stringify(facts)).slice(0, 8), 16) || 1);
  return set;
}

/** For a packed log. Safe to run twice. */
export async function storeLineHashes({ db, blobs }: { db: Database; blobs: Blobs }, id: bigint): Promise<void> {
  const run = await db.read.selectFrom('builds').select(runColumns).where('id', '=', id).executeTakeFirst();
  if (!run || !(run.build_state === 'passed' || isRed(run))) return;
  await keepLineHashes(db, id, await makeHashes({ database: db, db: db.read, blobs }, 0n, run));
}

interface Wanted {
  account: bigint;
  signal: AbortSignal;
  /** The hashes of logs that have none stored are made until then, by the clock of `performance`. */
  until: number;
  /** Of all runs together. */
  mostHashes: number;
}

/** At once: the hashes of one log may take a quarter of a megabyte. */
const atOnce = 20;

/** In the order of the runs. */
export async function hashesOf(
  parts: LogParts,
  runs: readonly Run[],
  { account, signal, until, mostHashes }: Wanted,
): Promise<{ hashes: Map<bigint, HashSet>; isComplete: boolean }> {
  const found = new Map<bigint, HashSet>();
  let left = mostHashes;
  for (let at = 0; at < runs.length; at += atOnce) {
    const some = runs.slice(at, at + atOnce);
    const stored = await lineHashesOf(
      parts.db,
      some.map(({ id }) => id),
    );
    for (const run of some) {
      signal.throwIfAborted();
      if (left <= 0 || performance.now() > until) return { hashes: found, isComplete: false };
      const known = stored.get(run.id);
      const hashes = unpackHashes(known ?? (await makeHashes(parts, account, run)));
      if (!known) await keepLineHashes(parts.database, run.id, Buffer.from(hashes.buffer.slice(0)));
      found.set(run.id, hashes);
      left -= hashes.length;
    }
  }
  const full = Array.from(found.values()).some(({ length }) => length >= most.lineHashes);
  return { hashes: found, isComplete: !full };
}
