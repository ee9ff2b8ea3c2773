import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { killGroup } from '../../shared/lib/process-groups.ts';
import { keepTail } from '../../shared/lib/tail.ts';
import type { Channel, Service } from './channel.ts';
import { sshEnvironment } from './ssh-config.ts';

/* One command on a remote, with a session's socket as its input and output: no data passes through this process. */

export interface SshRemote {
  /** The arguments of a connected ssh. */
  ssh: readonly string[];
  destination: string;
  path: string;
}

/** This much of the remote's output is searched for the reason of a failure. */
const mostKept = 64 * 1024;
const closeTimeoutMs = 2000;
const drainMs = 5000;

export function openSshChannel(
  socket: Socket,
  remote: SshRemote,
  service: Service,
  hear: (chunk: Buffer) => Promise<void>,
): Channel {
  // Protocol version 2 exists only for fetches.
  const protocol = service === 'git-upload-pack' ? { GIT_PROTOCOL: 'version=2' } : {};
  const command = `${service} ${quotedAsGitDoes(remote.path)}${service.startsWith('git-lfs') ? ' download' : ''}`;
  // The child ends with the connection that it uses, which ends with this process (ssh-master.ts).
  const child = spawn('ssh', [...remote.ssh, '--', remote.destination, command], {
    env: { ...sshEnvironment(), HOME: '/nonexistent', ...protocol },
    detached: true,
    stdio: [socket, socket, 'pipe'],
  });
  socket.destroy(); // the child has it
  const { stderr } = child;
  if (stderr === null) throw new Error('spawn gave no pipe');
  const output = keepTail(mostKept);
  // The shared connection's process has this pipe too, and may keep it open after the last write.
  let isOver = false;
  let cut: NodeJS.Timeout | undefined;
  const waitForMore = (): void => {
    if (isOver) cut = setTimeout(() => stderr.destroy(), drainMs);
  };
  const reading = (async () => {
    for await (const chunk of stderr as AsyncIterable<Buffer>) {
      clearTimeout(cut);
      output.add(chunk);
      await hear(chunk);
      waitForMore();
    }
  })().catch(() => {}); // cut off below, or the log accepts no more output, which ends the job elsewhere
  const kill = (): void => killGroup(child.pid, 'SIGKILL');
  const exited = Promise.withResolvers<void>();
  child.on('error', (error) => {
    output.add(Buffer.from(`${error.message}\n`));
    exited.resolve();
  });
  child.on('exit', () => exited.resolve());
  return {
    kill,
    end: async () => {
      const timeout = setTimeout(kill, closeTimeoutMs);
      await exited.promise;
      clearTimeout(timeout);
      isOver = true;
      waitForMore();
      await reading;
      clearTimeout(cut);
      return output.bytes();
    },
  };
}

/** A word for the remote shell. Hosts that parse the command themselves expect git's own quoting. */
export function quotedAsGitDoes(path: string): string {
  return `'${path.replaceAll(/['!]/g, String.raw`'\$&'`)}'`;
}
