import { differencesOf, inputsOfBuild } from '../lifecycle/build-inputs.ts';
import { testsOf } from '../results/test-results.ts';
import type { BuildRow } from '../db/schema.ts';
import type { BuildInput } from '../../shared/domain/build-inputs.ts';
import { most } from '../../shared/domain/bounds.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import type { Brief } from '../../shared/records/brief.ts';
import { changesSince } from './changes.ts';
import { failedStep, isRed } from './failed-step.ts';
import { hashesOf, type LogParts } from './line-hashes.ts';
import { newLinesOf, type NewLines } from './new-lines.ts';
import { lastPassed, originOf, pastRuns, type PastRun } from './runs.ts';

/** All that a brief may contain, before it is cut to its size. */
export type Found = Omit<Brief, 'lines' | 'truncated'> & { lines: NewLines; isComplete: boolean };

interface Wanted {
  /** The caller, whose turn in the thread it takes. */
  account: bigint;
  signal: AbortSignal;
  /** Whether the caller may see that a build has this input. */
  maySee: (input: BuildInput) => boolean;
  reproduce: string;
}

/** Most hashes are stored when a build ends. For others, logs are read until this time is over. */
const longestMs = 3000;

export async function findBrief(parts: LogParts, build: BuildRow, wanted: Wanted): Promise<Found> {
  const { db } = parts;
  const origin = await originOf(db, build);
  const passed = await lastPassed(db, build, origin);
  const changes = passed ? await changesSince(db, build, passed, origin) : { commits: [], files: [] };
  const step = failedStep(build);
  const inputs = passed ? await changedInputs(parts, { before: passed.id, after: build.id }, wanted) : [];
  const log = await readLogs(parts, build, wanted, await pastRuns(db, build, origin));
  return {
    step: step ? { name: step.name, exit_status: step.exitStatus } : null,
    tests: await failedTests(parts, build),
    lines: log.lines,
    changed: {
      ...changes,
      inputs: inputs.filter(({ kind }) => kind !== 'variable'),
      variables: inputs.filter(({ kind }) => kind === 'variable').map(({ name }) => name),
    },
    seen: log.seen,
    reproduce: wanted.reproduce,
    isComplete: log.isComplete,
  };
}

async function changedInputs(
  { db }: LogParts,
  { before, after }: { before: bigint; after: bigint },
  { maySee }: Wanted,
): Promise<Brief['changed']['inputs']> {
  const [old, now] = [await inputsOfBuild(db, before), await inputsOfBuild(db, after)];
  if (!old || !now) return [];
  const seen = (all: BuildInput[]): BuildInput[] => all.filter(maySee);
  return differencesOf(seen(old), seen(now)).map(({ kind, name }) => ({ kind, name }));
}

async function failedTests({ db }: LogParts, build: BuildRow): Promise<Brief['tests']> {
  if (build.tests_failed === 0) return [];
  const failed = await testsOf(db, build.id, { state: 'failed', limit: most.partsOfBrief });
  return failed.map(({ name, class: of, suite, file, line = null, message }) => ({
    name,
    class: of,
    suite,
    file,
    line,
    message,
  }));
}

const nothing: Pick<Found, 'lines' | 'seen' | 'isComplete'> = {
  lines: { found: [], last: [], isComplete: true },
  seen: { count: 0, since: null, branches: [] },
  isComplete: true,
};

async function readLogs(
  parts: LogParts,
  build: BuildRow,
  { account, signal }: Wanted,
  { passed, red }: { passed: PastRun[]; red: PastRun[] },
): Promise<Pick<Found, 'lines' | 'seen' | 'isComplete'>> {
  if (!isRed(build)) return nothing;
  const read = { account, signal, until: performance.now() + longestMs, mostHashes: most.lineHashesOfBrief };
  const compared = await hashesOf(parts, passed, read);
  const lines = await newLinesOf(parts, build, failedStep(build), {
    account,
    signal,
    passed: [...compared.hashes.values()],
  });
  const before = red.filter(({ id }) => id < build.id);
  const ends = await hashesOf(parts, [build, ...before], { ...read, until: performance.now() + longestMs });
  return {
    lines,
    seen: seenBefore(build, before, ends.hashes),
    isComplete: compared.isComplete && lines.isComplete && ends.isComplete,
  };
}

function seenBefore(
  build: BuildRow,
  before: readonly PastRun[],
  ends: ReadonlyMap<bigint, Uint32Array>,
): Brief['seen'] {
  const keyOf = (id: bigint): string | undefined => ends.get(id)?.toSorted().join(' ');
  const own = keyOf(build.id);
  const same = own === undefined ? [] : before.filter(({ id }) => keyOf(id) === own);
  const first = same.at(-1);
  return {
    count: same.length,
    since: first ? timestamp(first.finished_at ?? first.started_at ?? 0n) : null,
    branches: [...new Set(same.map(({ branch }) => branch).filter((name) => name !== ''))].slice(0, most.partsOfBrief),
  };
}
