import { join } from 'node:path';
import type { Job } from './types.ts';

/** A server may have sent the job. Refuses a job that could act outside its sandbox, or makes no sense. */
export function checkJob(job: Job): void {
  if (!/^[a-zA-Z0-9_-]{1,100}$/.test(job.id)) throw new Error(`not an id for a run: ${JSON.stringify(job.id)}`);
  if (job.steps.length === 0) throw new Error('a run needs at least one step');
  for (const { name, command } of job.steps)
    if (command.includes('\0')) throw new Error(`the command of ${name} has a NUL byte in it`);
  for (const { at } of job.mounts ?? [])
    if (join('/', at) !== at || at.endsWith('/')) throw new Error(`not a place to mount at: ${at}`);
}
