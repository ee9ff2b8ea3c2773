import assert from 'node:assert/strict';
import { run, type Finished } from '../../src/shared/lib/processes.ts';

/** Prometheus’ own program has to take what it is given. */
export async function promtool(cwd: string, args: string[], input?: string): Promise<Finished> {
  const told = await run('promtool', args, { cwd, ...(input === undefined ? {} : { input }) });
  assert.equal(told.status, 0, `${told.stdout.toString()}${told.stderr.toString()}`);
  return told;
}
