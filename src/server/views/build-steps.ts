import type { BuildRow } from '../db/schema.ts';
import { figuresOf } from './build-usage.ts';
import { timestampOrNull } from '../../shared/lib/timestamps.ts';
import type { Build } from '../../shared/records/build.ts';
import type { stepStates } from '../../shared/domain/step-states.ts';

/** Times are milliseconds since the build began. */
export interface StoredStep {
  name: string;
  state: (typeof stepStates)[number];
  from?: number;
  to?: number;
  earlier?: number;
  status?: number;
  line?: number;
  cpuMs?: number;
  memoryPeak?: number;
}

type Row = Pick<BuildRow, 'steps' | 'usage' | 'build_state' | 'exit_status' | 'started_at' | 'finished_at'>;

/** Unreported steps follow from the build's result. */
export function stepsOf(build: Row): Build['steps'] {
  const steps = build.steps === '' ? [onlyStep(build)] : (JSON.parse(build.steps) as StoredStep[]);
  const after = (ms: number | undefined): bigint | null =>
    ms === undefined || build.started_at === null ? null : build.started_at + BigInt(ms);
  return steps.map(({ name, state, from, to, earlier = 0, status, line, ...used }) => {
    const at = (ms: number | undefined): bigint | null => after(ms === undefined ? ms : ms - earlier);
    const isCutOff = state === 'running' && build.finished_at !== null;
    return {
      name,
      state: stateOf(state, build),
      exit_status: status ?? null,
      started_at: timestampOrNull(at(from)),
      finished_at: timestampOrNull(isCutOff ? build.finished_at : at(to)),
      line: line ?? null,
      ...figuresOf(used),
    };
  });
}

function stateOf(state: StoredStep['state'], { build_state: of, finished_at: over }: Row): StoredStep['state'] {
  if (over === null) return state;
  if (state === 'running') return of === 'cancelled' ? 'cancelled' : 'failed';
  return state === 'waiting' ? 'skipped' : state;
}

/** A build with a command has one step, which is not reported. It has the build's state. */
function onlyStep({ build_state: of, exit_status: status, started_at: began, finished_at: over }: Row): StoredStep {
  const state = of === 'running' || of === 'passed' || of === 'failed' ? of : 'waiting';
  const took = began === null || over === null ? undefined : Number(over - began);
  const times = state === 'waiting' ? {} : { from: 0, ...(took !== undefined && { to: took }) };
  return { name: 'command', state, ...times, ...(status !== null && { status }) };
}
