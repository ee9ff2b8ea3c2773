import { isUtf8 } from 'node:buffer';
import type { StepOrder, StepState } from '../shared/protocol/index.ts';
import { fits, readVariables } from './added-variables.ts';
import type { MaskedLog } from './masked-log.ts';
import type { Written } from './sandbox/step-files.ts';
import type { StepEnd } from './kept-builds.ts';
import type { NoteEnd } from './step-points.ts';
import type { Start } from './start.ts';
import type { Ended, EndedStep, Job, NextStep, Step } from './sandbox/types.ts';

export interface SuiteSteps {
  /** Call it right before the run. */
  begin(): Promise<void>;
  job: Pick<Job, 'steps' | 'first' | 'next' | 'onStep'>;
  conclude(ended: Ended): StepState[];
  added(): Record<string, string>;
  /** What the passed steps left for a start at the next one. */
  ends(): StepEnd[];
  /** The launch command that the run ended at. Undefined if the run reached the steps. */
  launch({ step }: Ended): string | undefined;
  /** Reports a failure outside the steps. From then on only steps with `when` failed or always run. */
  fail(): void;
  /** The exit status of the first failed step, or 0. Null if no step failed and the run was ended early. */
  statusOf(ended: Ended): number | null;
}

interface Options {
  launches: readonly { name: string; command: string }[];
  steps: readonly StepOrder[];
  log: MaskedLog;
  /** Called with a name when that part begins, and without a name when it ends. */
  onSpan?: (name: string | undefined) => void;
  onChange?: (states: StepState[]) => void;
  /** The build's start by `performance.now()`. Times are relative to it. */
  began?: number;
  onEnd?: NoteEnd;
  /** The run starts at a later step. */
  start?: Pick<Start, 'at' | 'added' | 'hidden' | 'done' | 'end'> | undefined;
}

const nothingToRun: Step = { name: 'nothing', command: ':' };

export function suiteSteps({
  launches,
  steps,
  log,
  onSpan = () => {},
  onChange = () => {},
  onEnd = () => {},
  began = performance.now(),
  start = { at: 0, added: {}, hidden: [] },
}: Options): SuiteSteps {
  const elapsed = (): number => Math.round(performance.now() - began);
  const states: StepState[] = steps.map(
    ({ name }, at) => start.done?.[at] ?? { name, state: at < start.at ? 'skipped' : 'waiting' },
  );
  const added = new Map(Object.entries(start.added));
  const secrets = [...start.hidden];
  const ends: StepEnd[] = start.end ? [start.end] : [];
  let failed: number | undefined;
  let isFailing = false;
  const all: Step[] = [
    ...launches.map(({ command }, at) => ({ name: `launch ${at}`, command })),
    ...steps.map(({ command }, at) => ({ name: `step ${at}`, command })),
  ];
  /** Returns the first step to run from this position, and marks the steps before it as skipped. */
  const choose = (from: number): number | undefined => {
    for (let at = from; at < steps.length; at += 1) {
      const when = steps[at]?.when;
      if (when === 'always' || (when === 'failed') === (failed !== undefined)) return at + launches.length;
      states[at] = { name: steps[at]?.name ?? '', state: 'skipped' };
    }
    return undefined;
  };
  const change = (at: number, changed: Partial<StepState>): void => {
    const state = states[at - launches.length];
    if (!state) return;
    Object.assign(state, changed);
    onChange(states);
  };
  const begin = async (at: number): Promise<void> => {
    const line = await log.newLine();
    const state = states[at - launches.length];
    if (state) state.line = line;
  };
  const take = async (what: string, bytes: Buffer | null): Promise<[string, string][]> => {
    if (bytes?.length === 0) return [];
    const report = (message: string): Promise<void> => log.print(`${what}: ${message}.\n`);
    await log.newLine();
    if (bytes === null || !isUtf8(bytes)) {
      await report(
        bytes === null ? 'it is too long, so all of it is ignored' : 'it is not UTF-8, so all of it is ignored',
      );
      return [];
    }
    const { variables, passedOver } = readVariables(bytes.toString());
    for (const message of passedOver) await report(`${message}; it is ignored`);
    const taken = Array.from(variables);
    if (fits(new Map([...added, ...taken]))) return taken;
    await report('with these, the steps exceed the limit, so all of it is ignored');
    return [];
  };
  const add = async ({ plain, secret }: Written): Promise<void> => {
    const hidden = await take('HEADRACE_SECRET_ENV', secret);
    const values = hidden.map(([, value]) => value);
    secrets.push(...values);
    if (values.length > 0) await log.hide(values);
    for (const [name, value] of [...(await take('HEADRACE_ENV', plain)), ...hidden]) added.set(name, value);
  };
  const next = async ({ at, status, written, seal }: EndedStep): Promise<NextStep | undefined> => {
    await add(written);
    if (first === undefined) return undefined;
    const isLaunch = at < launches.length;
    change(at, { state: status === 0 ? 'passed' : 'failed', status, to: elapsed() });
    if (status !== 0 && isLaunch) return undefined;
    if (status !== 0) failed ??= status;
    if (isFailing) failed ??= 1;
    const following = at + 1 < launches.length ? at + 1 : choose(Math.max(start.at, at + 1 - launches.length));
    if (following === undefined) return undefined;
    const sealed = isLaunch || failed !== undefined ? undefined : await seal?.();
    if (sealed) {
      const [first, last] = [at + 1 - launches.length, following - launches.length];
      const end = { first, last, stages: sealed.stages, added: Object.fromEntries(added), hidden: [...secrets] };
      ends.push(end);
      onEnd(end, sealed, states.slice(0, last));
    }
    await begin(following);
    return { at: following, environment: Object.fromEntries(added) };
  };
  const first = launches.length > 0 ? 0 : choose(start.at);
  return {
    job: {
      steps: first === undefined ? [nothingToRun] : all,
      ...(first !== undefined && first > 0 && { first }),
      next,
      onStep(at, what, used) {
        const name = launches[at] ? `launch ${launches[at].name}` : steps[at - launches.length]?.name;
        onSpan(what === 'start' ? name : undefined);
        if (what === 'start' && first !== undefined) change(at, { state: 'running', from: elapsed() });
        const state = states[at - launches.length];
        if (state && used) Object.assign(state, wholeFigures(used));
      },
    },
    begin: async () => {
      if (first !== undefined) await begin(first);
    },
    conclude({ exitStatus, reason, step }) {
      // The program that runs the steps was ended, during a step or before the next one.
      const open = states.find(({ state }) => state === 'running' || state === 'waiting') ?? states.at(-1);
      if (
        reason === null &&
        exitStatus !== null &&
        exitStatus !== 0 &&
        !step.startsWith('launch') &&
        open &&
        failed === undefined
      )
        Object.assign(open, { state: 'failed', status: exitStatus, to: elapsed() });
      return states;
    },
    added: () => Object.fromEntries(added),
    ends: () => ends,
    launch: ({ step }) => launches.find((_, at) => step === `launch ${at}`)?.name,
    fail: () => void (isFailing = true),
    statusOf: ({ exitStatus }) => failed ?? exitStatus,
  };
}

/** Reports have whole numbers, and nothing for what was not measured. */
export function wholeFigures<Figures extends object>(figures: Figures): { [Name in keyof Figures]?: number } {
  const known = Object.entries(figures).filter(([, figure]) => Number.isFinite(figure));
  return Object.fromEntries(known.map(([name, figure]) => [name, Math.max(0, Math.round(figure as number))])) as {
    [Name in keyof Figures]?: number;
  };
}
