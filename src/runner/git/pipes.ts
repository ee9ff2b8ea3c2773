import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../../lib/processes.ts';
import { randomName } from '../../lib/random-name.ts';

/*
 * The named pipes between a session and the runner, in a directory that serves one session. The sandbox sees it
 * read-only, which lets it write to the pipes and change nothing about them, so the runner can open them at any time.
 *
 *   requests    what session.pl is asked for
 *   to-ssh      what git says to the other side
 *   from-ssh    what the other side says
 */

export const pipeNames = ['requests', 'to-ssh', 'from-ssh'] as const;

export interface PipeMaker {
  /** The directory for one session. */
  take(): Promise<string>;
  /** Removes it, and makes the one for the next session ahead of it. */
  giveBack(folder: string): Promise<void>;
  close(): Promise<void>;
}

export function openPipeMaker(parent: string): PipeMaker {
  let spare: Promise<string> | undefined;
  let isClosed = false;
  const make = async (): Promise<string> => {
    const folder = join(parent, `session-${randomName()}`);
    await mkdir(folder, { mode: 0o755 });
    // For everybody who gets this far: nobody else can enter the directory above.
    const made = await run('mkfifo', ['-m', '666', '--', ...pipeNames.map((name) => join(folder, name))]);
    if (made.status !== 0) throw new Error(`no pipes for git: ${made.stderr.toString().trim()}`);
    return folder;
  };
  return {
    take: () => {
      const mine = spare ?? make();
      spare = undefined;
      return mine;
    },
    giveBack: async (folder) => {
      await rm(folder, { recursive: true, force: true }).catch(() => {}); // what stays goes with the folder above
      if (isClosed) return;
      spare ??= make();
      spare.catch(() => {}); // who takes it hears of it
    },
    close: async () => {
      isClosed = true;
      await spare?.catch(() => {});
    },
  };
}
