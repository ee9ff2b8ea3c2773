import { run, type Finished } from '../../shared/lib/processes.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import type { EngineJobs } from './scale-plan.ts';
import { quote } from '../../shared/lib/shell-word.ts';

/** A Slurm cluster, through its own programs. Jobs are recognized by their name, which only one scaler uses. */
export interface Slurm {
  jobs(signal?: AbortSignal): Promise<SlurmJobs>;
  /** All or none. */
  submit(count: number): Promise<void>;
  cancel(ids: readonly string[]): Promise<void>;
  cancelPending(): Promise<void>;
}

export interface SlurmJobs extends EngineJobs {
  ended: { well: readonly string[]; badly: readonly string[] };
}

export interface SlurmOptions {
  name: string;
  script: string;
  partition: string | undefined;
  /** May contain Slurm's own placeholders. */
  output: string;
  env: NodeJS.ProcessEnv;
}

const endedBadly = new Set([
  'FAILED',
  'NODE_FAIL',
  'BOOT_FAIL',
  'OUT_OF_MEMORY',
  'TIMEOUT',
  'DEADLINE',
  'SPECIAL_EXIT',
]);
/** States of jobs that a user ended on purpose. */
const calledOff = new Set(['CANCELLED', 'PREEMPTED', 'REVOKED']);

const longestMs = 60_000;

export function openSlurm({ name, script, partition, output, env }: SlurmOptions): Slurm {
  const plain = commandEnvironment(env);
  const mine = [`--name=${name}`, `--user=${process.getuid?.() ?? ''}`];
  const call = async (program: string, args: string[], input = ''): Promise<Finished> => {
    const signal = AbortSignal.timeout(longestMs);
    const finished = await run(program, args, { env: plain, input, signal }).catch((error: unknown) => {
      throw new Error(`${program}: ${messageOf(error)}`);
    });
    if (finished.status === 0) return finished;
    throw new Error(
      `${program}: ${finished.stderr.toString().trim().slice(0, 1000) || `it ended with ${finished.status}`}`,
    );
  };
  return {
    async jobs() {
      const format = ['--noheader', '--array', '--states=all', '--format=%i %T'];
      return readJobs((await call('squeue', [...mine, ...format])).stdout.toString());
    },
    async submit(count) {
      const partitionFlag = partition === undefined ? [] : [`--partition=${partition}`];
      const plainly = ['--parsable', '--no-requeue', '--export=NIL', '--chdir=/', '--input=/dev/null'];
      const args = [`--job-name=${name}`, ...partitionFlag, ...plainly, `--output=${output}`, `--array=1-${count}`];
      await call('sbatch', args, script);
    },
    async cancel(ids) {
      await call('scancel', ['--state=PENDING', ...ids]);
    },
    async cancelPending() {
      await call('scancel', ['--state=PENDING', ...mine]);
    },
  };
}

/** Settings such as `SBATCH_ACCOUNT` stay, except those that would change the programs' output. */
function commandEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(HEADRACE|SQUEUE_|SCANCEL_)/.test(name)));
}

/** A line that cannot be parsed must not be skipped: an uncounted job would be started again. */
export function readJobs(lines: string): SlurmJobs {
  const pending: string[] = [];
  const well: string[] = [];
  const badly: string[] = [];
  let active = 0;
  let leaving = 0;
  for (const line of lines.split('\n').filter((one) => one.trim() !== '')) {
    const [, id, state] = /^(\d+(?:_\d+)?) ([A-Z_]+)\s*$/.exec(line) ?? [];
    if (id === undefined || state === undefined) throw new Error(`squeue: unknown line ${JSON.stringify(line)}`);
    if (state === 'PENDING') pending.push(id);
    else if (state === 'COMPLETED') well.push(id);
    else if (endedBadly.has(state)) badly.push(id);
    else if (state === 'COMPLETING') leaving += 1;
    else if (!calledOff.has(state)) active += 1;
  }
  return { pending: pending.toSorted(byNumber), active, leaving, ended: { well, badly } };
}

function byNumber(one: string, other: string): number {
  const [[a = 0, b = 0], [c = 0, d = 0]] = [one, other].map((id) => id.split('_').map(Number)) as [number[], number[]];
  return a - c || b - d;
}

/** The environment starts empty, and secrets are in files, which the script names. */
export function jobScript(program: readonly string[], environment: Record<string, string>): string {
  const settings = Object.entries(environment).map(([name, value]) => wordOf(`${name}=${value}`));
  const command = ['exec env -i "HOME=${HOME:-/}"', ...settings, ...program.map(wordOf)];
  return `#!/bin/sh\n${command.join(' \\\n  ')}\n`;
}

function wordOf(text: string): string {
  if (/[\0\r\n]/.test(text))
    throw new Error('a setting or a path contains a line break, so it cannot be passed to a job');
  return quote(text);
}
