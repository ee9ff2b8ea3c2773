import { format } from 'node:util';
import { failureOf } from '../../src/cli/operator/call.ts';
import { operatorProgram } from '../../src/cli/operator/catalog.ts';
import type { Finished } from '../../src/shared/lib/processes.ts';

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command of the program in this process: one that ends by itself, and leaves the process as it was. Arguments, settings, output and errors are the same as behind
 * bin/headrace, but it need not load hundreds of modules first. `headrace` in program.ts starts the real program, for
 * behaviour that only shows there. Each command is also run that way, in one test.
 */
export async function command(args: string[], env: Record<string, string> = {}): Promise<Finished> {
  const mine = last.then(() => captured(args, env));
  last = mine;
  return mine;
}

/** One at a time, because there is one standard output. */
async function captured(args: string[], env: Record<string, string>): Promise<Finished> {
  const printed: string[] = [];
  const said: string[] = [];
  const { log, error } = console;
  console.log = (...values: unknown[]) => void printed.push(`${format(...values)}\n`);
  console.error = (...values: unknown[]) => void said.push(`${format(...values)}\n`);
  const umask = process.umask(0o077);
  let status = 0;
  try {
    await operatorProgram(env).perform(args);
  } catch (failure) {
    const { status: exit, complaint } = failureOf(failure);
    status = exit;
    said.push(`${complaint}\n`);
  } finally {
    console.log = log;
    console.error = error;
    process.umask(umask);
  }
  return { status, signal: null, stdout: Buffer.from(printed.join('')), stderr: Buffer.from(said.join('')) };
}
