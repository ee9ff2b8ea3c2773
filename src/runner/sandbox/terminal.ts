import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { withoutStrays } from '../../shared/lib/descriptors.ts';
import { shellFrame, writeWindow, type WindowSize } from '../../shared/domain/shell-frames.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

export interface Terminal {
  /** Its path in the sandbox. */
  readonly path: string;
  readonly output: Readable;
  /** Settles when there is room for more. Input after the end is lost. */
  type(bytes: Uint8Array): Promise<void>;
  resize(size: WindowSize): void;
  /** Must be called when no process of the run is left: the output ends when all of it was read. */
  end(): void;
  kill(): void;
}

/** terminal.pl takes messages of 256 KB at most. */
const mostTyped = 64 * 1024;

/** `init` is the first process of the sandbox. The terminal belongs to the run's user. */
export async function openTerminal(
  init: number,
  owner: { uid: number; gid: number },
  size: WindowSize,
): Promise<Terminal> {
  const program = sourceFile('runner', 'sandbox', 'terminal.pl');
  const place = `/proc/${init}/root/dev/pts`;
  const [perl, ...args] = withoutStrays(['perl', program, place, `${owner.uid}`, `${owner.gid}`], 2);
  const child = spawn(perl, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true, // the runner handles a Ctrl-C in its own terminal
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  let complaint = '';
  child.stderr.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-1000)));
  child.stdin.on('error', () => {}); // terminal.pl has ended, which the end of the output shows
  child.on('error', (error) => (complaint += error.message));
  const number = await firstLine(child.stdout);
  if (number === undefined || !/^\d{1,4}$/.test(number)) {
    child.kill('SIGKILL');
    throw new Error(`a terminal could not be opened: ${complaint.trim()}`);
  }
  const send = (frame: Uint8Array): boolean => (child.stdin.writable ? child.stdin.write(frame) : true);
  const resize = (to: WindowSize): void => void send(shellFrame('w', writeWindow(to)));
  resize(size);
  return {
    path: `/dev/pts/${number}`,
    output: child.stdout,
    async type(bytes) {
      for (let at = 0; at < bytes.length; at += mostTyped)
        if (!send(shellFrame('d', bytes.subarray(at, at + mostTyped))))
          await Promise.race([once(child.stdin, 'drain'), once(child, 'close')]);
    },
    resize,
    end: () => void child.stdin.end(),
    kill: () => void child.kill('SIGKILL'),
  };
}

/** Reads no further than the end of the line. */
async function firstLine(output: Readable): Promise<string | undefined> {
  let line = '';
  for (;;) {
    await Promise.race([once(output, 'readable'), once(output, 'end')]).catch(() => {});
    for (let byte = output.read(1) as Buffer | null; byte !== null; byte = output.read(1) as Buffer | null) {
      if (byte[0] === 10) return line;
      line += byte.toString('latin1');
      if (line.length > 16) return undefined;
    }
    if (output.readableEnded || output.destroyed) return undefined;
  }
}
