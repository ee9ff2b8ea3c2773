import { spawn } from 'node:child_process';
import { killGroup } from '../../shared/lib/process-groups.ts';
import { keepTail } from '../../shared/lib/tail.ts';
import { sshEnvironment } from './ssh-config.ts';

/** The master ended, for the reason in `output`. */
export class MasterError extends Error {
  override name = 'MasterError';
  output: string;

  constructor(output: string) {
    super('ssh could not connect, or the connection ended');
    this.output = output;
  }
}

/** Runs the master to its end; `isReady` is called when other processes can use it. */
export function runMaster(
  args: string[],
  stop: AbortSignal,
  deadlineMs: number,
  hear: (chunk: Buffer) => Promise<void>,
  isReady: () => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  if (stop.aborted) return Promise.resolve();
  const master = spawn('setpriv', ['--pdeathsig', 'TERM', '--', 'ssh', ...args], {
    env: { ...sshEnvironment(), SHELL: '/bin/sh' },
    detached: true, // no terminal, and one process group with the ssh processes for jump hosts
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = (): void => killGroup(master.pid, 'SIGKILL');
  const output = keepTail(64 * 1024);
  // ssh limits only the handshake itself, not a jump host's time or a hung authentication.
  const deadline = setTimeout(() => {
    output.add(Buffer.from('\nConnection timed out'));
    void hear(Buffer.from('ssh: the connection was not made in time\n'));
    end();
  }, deadlineMs);
  stop.addEventListener('abort', end, { once: true });
  master.stdout.once('data', () => {
    clearTimeout(deadline);
    isReady();
  });
  master.stderr.on('data', (chunk: Buffer) => {
    output.add(chunk);
    master.stderr.pause();
    void hear(chunk).finally(() => master.stderr.resume());
  });
  master.on('error', reject);
  master.on('close', () => {
    clearTimeout(deadline);
    stop.removeEventListener('abort', end);
    killGroup(master.pid, 'SIGKILL'); // a jump host's ssh may outlive the master for a moment
    if (stop.aborted) resolve();
    else reject(new MasterError(output.bytes().toString()));
  });
  return promise;
}
