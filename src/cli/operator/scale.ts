import { existsSync, readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { runnerEnvironment, type Config } from '../../shared/config.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import { tryLockFolder } from '../../shared/lib/file-lock.ts';
import { openLink, type OpenLink } from '../../runner/link.ts';
import { WrongUse } from '../developer/errors.ts';
import type { Call } from './call.ts';
import { createLog } from './log.ts';
import { Pace, plan } from './scale-plan.ts';
import { jobScript, openSlurm, type Slurm } from './slurm.ts';
import { stopSignals } from './stopping.ts';
import { readToken } from './token-file.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

interface Options {
  url: string;
  tokenFile: string;
  caFile?: string | undefined;
  max?: string;
  partition?: string;
  idle?: string;
  scratch?: string;
  output?: string;
  program?: string;
}

/** Keeps as many short-lived runners as the queue needs. It stores nothing, so it can be killed at any moment. */
export async function scaleSlurm({ config, options }: Call<Options>): Promise<void> {
  const stopping = stopSignals().asked;
  const { url, partition, output = '/dev/null' } = options;
  const log = createLog(config);
  const max = Number(options.max ?? 10);
  const tokenFile = resolve(options.tokenFile);
  const token = readToken(tokenFile);
  const caFile = options.caFile && resolve(options.caFile);
  const script = scriptFor(config, { ...options, tokenFile, caFile });
  const name = nameFor(token);
  const link = openLink({ url, token, ca: caFile && readFileSync(caFile, 'utf8'), tags: config.tags });
  const slurm = openSlurm({ name, script, partition, output, env: process.env });
  // Two scalers would only correct each other. If the file system can lock, the second one gets an error.
  const lock = await tryLockFolder(tokenFile).catch(() => 'impossible' as const);
  if (lock === undefined) throw new Error(`another scaler uses the token in ${tokenFile}`);
  log.info({ jobs: name, max }, 'scaling');
  await scale({ link, slurm, max, log, stopping });
  await slurm
    .cancelPending()
    .catch((error: unknown) => log.error(`waiting jobs were not cancelled: ${messageOf(error)}`));
  link.close();
  if (lock !== 'impossible') await lock.release();
  process.exit(0);
}

const checkEveryMs = 1000;
const checkIdleEveryMs = 30_000;
const longestPauseMs = 30_000;
/** A failed submission may have reached the controller anyway. After this time its jobs are visible. */
const unclearMs = 15_000;
const mostAtOnce = 100;

interface Scaling {
  link: Pick<OpenLink, 'demand'>;
  slurm: Slurm;
  max: number;
  log: Logger;
  stopping: AbortSignal;
}

export async function scale({ link, slurm, max, log, stopping }: Scaling): Promise<void> {
  const pace = new Pace();
  let lastError = '';
  let wait = checkEveryMs;
  /** Until then, the cluster cannot have jobs that this scaler does not know. */
  let quietUntil = -Infinity;

  const check = async (): Promise<void> => {
    const now = performance.now();
    if (now < quietUntil && (await link.demand({}, stopping)).waiting === 0) return;
    // The cluster first: a job that takes work in between then counts for work that no longer waits.
    const jobs = await slurm.jobs();
    const demand = await link.demand({}, stopping);
    pace.note(jobs.ended, now);
    const { submit, cancel } = plan(demand, jobs, max);
    const isQuiet = demand.waiting === 0 && jobs.pending.length + jobs.active + jobs.leaving === 0;
    quietUntil = isQuiet ? now + checkIdleEveryMs : -Infinity;
    if (cancel.length > 0) {
      log.info({ cancel: cancel.length, ...demand }, 'cancelling jobs');
      await slurm.cancel(cancel.slice(-mostAtOnce));
    }
    if (submit === 0 || !pace.mayStart(now)) return;
    const count = Math.min(submit, mostAtOnce);
    log.info({ submit: count, ...demand }, 'starting jobs');
    try {
      await slurm.submit(count);
    } catch (error) {
      pace.hold(performance.now(), unclearMs);
      throw error;
    }
  };

  while (!stopping.aborted) {
    try {
      await check();
      if (lastError !== '') log.info('scaling continues');
      lastError = '';
      wait = checkEveryMs;
    } catch (error) {
      if (stopping.aborted) return;
      if (lastError !== messageOf(error)) log.warn(`trying again: ${messageOf(error)}`);
      lastError = messageOf(error);
      wait = Math.min(wait * 2, longestPauseMs);
    }
    await pause(wait, undefined, { signal: stopping }).catch(() => {});
  }
}

/** Jobs get the scaler's settings for runners. None is a secret. */
function scriptFor(config: Config, { url, tokenFile, caFile, idle = '60', ...options }: Options): string {
  const program = resolve(options.program ?? sourceFile('..', 'bin', 'headrace'));
  if (!existsSync(program)) throw new WrongUse(`--program ${program}: this file does not exist`);
  const scratch = resolve(options.scratch ?? `/var/tmp/headrace-${process.getuid?.() ?? 0}`);
  const life = ['--until-idle', '--idle', idle, '--concurrency', '1'];
  const args = [...life, '--url', url, '--token-file', tokenFile, '--scratch', scratch];
  if (caFile !== undefined) args.push('--ca-file', caFile);
  const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  return jobScript([program, 'runner', ...args], { PATH, ...runnerEnvironment(config) });
}

/** Made from the token, so no other scaler has it. It does not reveal the token. */
function nameFor(token: string): string {
  return `headrace-${createHash('sha256').update(`scale ${token}`).digest('hex').slice(0, 16)}`;
}
