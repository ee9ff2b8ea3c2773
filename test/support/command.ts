import { format } from 'node:util';
import { admin } from '../../src/cli/admin.ts';
import { appAdmin } from '../../src/cli/apps.ts';
import { auditCommand } from '../../src/cli/audit.ts';
import { backup } from '../../src/cli/backup.ts';
import { blobsCommand } from '../../src/cli/blobs.ts';
import { failureOf, runCommand } from '../../src/cli/commands.ts';
import { rotateMasterKey } from '../../src/cli/master-key.ts';
import { migrateCommand } from '../../src/cli/migrate.ts';
import { restore } from '../../src/cli/restore.ts';
import { runnerAdmin } from '../../src/cli/runners.ts';
import type { Finished } from '../../src/lib/processes.ts';

/** The commands that end by themselves and leave the process as it was. */
const commands = [
  ...admin,
  ...appAdmin,
  ...runnerAdmin,
  rotateMasterKey,
  auditCommand,
  migrateCommand,
  backup,
  restore,
  blobsCommand,
];

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command of the program in this process. Arguments, settings, output and errors are the same as behind
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
    await runCommand(commands, args, env);
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
