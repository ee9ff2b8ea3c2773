import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { killGroup } from '../../lib/process-groups.ts';
import { keepTail } from '../../lib/tail.ts';
import { mostKept, openEnds, closeTimeoutMs, type Channel, type Service } from './channel.ts';

/*
 * One command on the remote of a connection, joined to the git in a session by its pipes: the transferred data does not
 * pass through this process.
 */

export interface SshRemote {
  /** The arguments of a connected ssh. */
  ssh: readonly string[];
  destination: string;
  /** The repository's path on the remote. */
  path: string;
}

const drainMs = 5000;

export function openSshChannel(
  pipes: string,
  remote: SshRemote,
  service: Service,
  hear: (chunk: Buffer) => Promise<void>,
): Channel {
  const { reads, writes, release } = openEnds(pipes);
  // Version 2 exists for fetching only.
  const protocol = service === 'git-upload-pack' ? { GIT_PROTOCOL: 'version=2' } : {};
  const command = `${service} ${quoted(remote.path)}`;
  const args = ['--pdeathsig', 'TERM', '--', 'ssh', ...remote.ssh, '--', remote.destination, command];
  const child = spawn('setpriv', args, {
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', LC_ALL: 'C.UTF-8', ...protocol },
    detached: true,
    stdio: [reads, writes, 'pipe'],
  });
  [reads, writes].forEach((fd) => closeSync(fd));
  const { stderr } = child;
  if (stderr === null) throw new Error('spawn gave no pipe');
  const said = keepTail(mostKept);
  // The shared connection got this pipe too, and may hold it open after the last write.
  let isOver = false;
  let cut: NodeJS.Timeout | undefined;
  const waitForMore = (): void => {
    if (isOver) cut = setTimeout(() => stderr.destroy(), drainMs);
  };
  const reading = (async () => {
    for await (const chunk of stderr as AsyncIterable<Buffer>) {
      clearTimeout(cut);
      said.add(chunk);
      await hear(chunk);
      waitForMore();
    }
  })().catch(() => {}); // cut off below, or the log accepts no more output, which ends the job elsewhere
  const kill = (): void => killGroup(child.pid, 'SIGKILL');
  const exited = Promise.withResolvers<void>();
  child.on('error', (error) => {
    said.add(Buffer.from(`${error.message}\n`));
    exited.resolve();
  });
  child.on('exit', () => exited.resolve());
  return {
    joined: release,
    kill,
    end: async () => {
      release();
      const timeout = setTimeout(kill, closeTimeoutMs);
      await exited.promise;
      clearTimeout(timeout);
      isOver = true;
      waitForMore();
      await reading;
      clearTimeout(cut);
      return said.bytes();
    },
  };
}

/** Quotes for the remote shell, as git does. */
export function quoted(path: string): string {
  return `'${path.replaceAll(/['!]/g, String.raw`'\$&'`)}'`;
}
