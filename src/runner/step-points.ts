import { messageOf } from '../shared/lib/error-code.ts';
import { sha256 } from '../shared/lib/sha256.ts';
import { bytes } from '../shared/domain/bounds.ts';
import type { PointOrder, StepOrder, StepState, SuiteOrder } from '../shared/protocol/index.ts';
import type { RunnerDeps, Task } from './job-runner.ts';
import type { StepEnd } from './kept-builds.ts';
import { packLayers } from './pack-files.ts';
import { isFinal, unlessStoreAway, untilAnswered } from './retry.ts';
import type { Sealed } from './sandbox/types.ts';
import type { Start, Wanted } from './start.ts';
import { unpackedLayers, type Holding } from './suite-files.ts';

/**
 * Points at which the next attempt goes on if this runner is lost. After a done step, the files are packed and sent
 * while the next step runs. Only the last point counts, so steps that end meanwhile are passed over.
 */
export interface StepPoints extends AsyncDisposable {
  note: NoteEnd;
  /** The files may change or vanish from now on, so no further point is sent. */
  end(): void;
}

export type NoteEnd = (end: StepEnd, sealed: Sealed, done: readonly StepState[]) => void;

/** What the next runner compares and takes. Only runners read it. */
interface PointFacts extends Omit<StepEnd, 'stages'> {
  basis: string;
  steps: string;
}

type Deps = Pick<RunnerDeps, 'sandboxes' | 'trees' | 'link' | 'log'>;
type Noted = Parameters<NoteEnd>;

/** Undefined if the suite does not ask for it, or its runs have no layers. */
export function openStepPoints(
  deps: Deps,
  order: SuiteOrder,
  { id, signal, basis }: Pick<Task, 'id' | 'signal'> & { basis: () => Promise<string> },
): StepPoints | undefined {
  const { resume, steps, imageBuilds } = order;
  if (!resume || imageBuilds || !deps.sandboxes.hasLayers) return undefined;
  const over = new AbortController();
  const ending = AbortSignal.any([signal, over.signal]);
  let next: Noted | undefined;
  let sent: { stages: number; digest: string } | undefined;
  let working: Promise<void> | undefined;

  const send = async ([{ stages, ...left }, { layers, changesImage }, done]: Noted): Promise<void> => {
    if (changesImage()) return; // deletions in an image cannot be packed
    const known: PointFacts = { ...left, basis: await basis(), steps: digestOf(steps.slice(0, left.last)) };
    const facts = JSON.stringify(known);
    if (Buffer.byteLength(facts) > bytes.stepFacts) return;
    const digest =
      sent?.stages === stages
        ? sent.digest
        : await packLayers(deps, { id, signal: ending }, layers, resume.mostBytes, unlessStoreAway);
    ending.throwIfAborted(); // the files may have been incomplete
    const step = steps[left.last]?.name ?? '';
    const point = { claim: id, digest, step, done: done.map(({ line: _line, ...state }) => state), facts };
    await untilAnswered(ending, () => deps.link.stepPoint(point, ending));
    sent = { stages, digest };
  };
  const work = async (): Promise<void> => {
    while (next && !ending.aborted) {
      const noted = next;
      next = undefined;
      try {
        await send(noted);
      } catch (error) {
        if (ending.aborted) break;
        deps.log(`the files of a step are not stored for a next attempt: ${messageOf(error)}`);
        if (isFinal(error)) over.abort(); // too large, or no longer wanted
      }
    }
    working = undefined;
  };
  return {
    note(end, sealed, done) {
      next = [end, sealed, done.map((state) => ({ ...state }))];
      working ??= work();
    },
    end: () => over.abort(),
    async [Symbol.asyncDispose]() {
      over.abort();
      await working;
    },
  };
}

/** The start of an attempt that goes on where a lost one was. */
export async function startAtPoint(
  deps: RunnerDeps,
  { files, done, facts, earlierMs }: PointOrder,
  { at, basis, order }: Wanted,
  holding: Holding,
): Promise<Start | 'changed'> {
  const { basis: before, steps, first, last, added, hidden } = JSON.parse(facts) as PointFacts;
  if (before !== basis || last !== at || steps !== digestOf(order.steps.slice(0, at))) return 'changed';
  return {
    at,
    layers: await unpackedLayers(deps, order.source, files, holding),
    added,
    hidden,
    cache: undefined,
    wentOn: files,
    done: done.slice(0, at).map((state) => ({ ...state, earlier: (state.earlier ?? 0) + earlierMs })),
    end: { first, last, stages: 0, added, hidden },
  };
}

function digestOf(steps: readonly StepOrder[]): string {
  return sha256(JSON.stringify(steps));
}
