import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { done, said } from './support.ts';

/** These also work where control groups are of the first version, and where limits cannot be raised. */
const engine = ['--cgroup-manager', 'cgroupfs', '--runtime', 'runc'];
const limits = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096'];

export interface Container {
  /** A shell command in there, as root unless said otherwise. */
  sh(command: string, user?: string): Promise<Finished>;
  /** One that has to succeed; what it printed. */
  works: (command: string, user?: string) => Promise<string>;
  /** What its first process printed. */
  logs(): Promise<string>;
  /** Asks it to end as an operator does, and answers its exit status. */
  stop(): Promise<string>;
  close(): Promise<void>;
}

export async function startContainer(...args: string[]): Promise<Container> {
  const name = `headrace-test-${randomBytes(5).toString('hex')}`;
  await done('podman', ...engine, 'run', '--detach', '--name', name, ...limits, ...args);
  const sh = (command: string, user = 'root'): Promise<Finished> =>
    run('podman', [...engine, 'exec', '--user', user, name, 'sh', '-c', command]);
  return {
    sh,
    async works(command, user) {
      const ran = await sh(command, user);
      assert.equal(ran.status, 0, `${command}\n${said(ran)}`);
      return ran.stdout.toString();
    },
    logs: async () => said(await run('podman', [...engine, 'logs', name])),
    async stop() {
      await done('podman', ...engine, 'stop', '--time', '30', name);
      return (await done('podman', ...engine, 'inspect', '--format', '{{.State.ExitCode}}', name)).trim();
    },
    close: async () => void (await run('podman', [...engine, 'rm', '--force', '--volumes', name])),
  };
}

export async function until(holds: () => Promise<boolean>, otherwise: () => Promise<string>): Promise<void> {
  for (const from = Date.now(); !(await holds()); await pause(300)) {
    if (Date.now() - from > 120_000) assert.fail(await otherwise());
  }
}
