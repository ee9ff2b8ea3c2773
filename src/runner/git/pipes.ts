import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../../lib/processes.ts';
import { randomName } from '../../lib/random-name.ts';

/*
 * The named pipes between a session and the runner, in a directory for one session. The sandbox sees the directory
 * read-only: it can write to the pipes but not replace them, so the runner can open them at any time.
 *
 *   requests    the requests to session.pl
 *   to-ssh      the output of git to the remote
 *   from-ssh    the output of the remote
 */

export const pipeNames = ['requests', 'to-ssh', 'from-ssh'] as const;

export interface PipeMaker {
  /** The directory for one session. */
  take(): Promise<string>;
  /** Removes it, and prepares the one for the next session. */
  giveBack(folder: string): Promise<void>;
  close(): Promise<void>;
}

export function openPipeMaker(parent: string): PipeMaker {
  let spare: Promise<string> | undefined;
  let isClosed = false;
  const make = async (): Promise<string> => {
    const folder = join(parent, `session-${randomName()}`);
    await mkdir(folder, { mode: 0o755 });
    // Writable for all users that can reach it: no other user can enter the parent directory.
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
      await rm(folder, { recursive: true, force: true }).catch(() => {}); // remains are removed with the parent folder
      if (isClosed) return;
      spare ??= make();
      spare.catch(() => {}); // the caller that takes it gets the error
    },
    close: async () => {
      isClosed = true;
      await spare?.catch(() => {});
    },
  };
}
