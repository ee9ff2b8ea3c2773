import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createRepository, type NewCommit, type Repository } from '../../test/support/repository.ts';
import { startGitHost } from '../../test/support/sshd.ts';
import { call, startHeadrace, type Service } from './servers.ts';

interface Item {
  id_str: string;
  build_state: string;
}

/** A service with one project and one suite. The suite's command can be set for each build. */
export interface BenchProject {
  service: Service;
  repository: Repository;
  path: string;
  /** The address of the suite. */
  suite: string;
  /** The commit that is built. */
  sha: string;
  runnerPid(): number;
  /** The processes of the service. */
  pids(): { server: number; runner: number };
  /** Sets the command of the next build. */
  command(command: string): Promise<void>;
  /** Requests a build of the commit and returns its address. The commit is known after the first time. */
  build(): Promise<string>;
  /** Waits until the build at this address has ended and its log is complete. */
  end(build: string): Promise<void>;
  /** Makes another project of the same repository, builds it once, and returns its address. */
  another(name: string): Promise<string>;
  /** Starts another server on the same database, with its own runner. It is stopped with this server. */
  anotherServer(): Promise<Service>;
  stop(): Promise<void>;
}

const unfinished = new Set(['enqueued', 'running']);

/** With cores, each server gets the next of them for itself and its runner. */
export async function startProject(
  content: NewCommit = {},
  settings: NodeJS.ProcessEnv = {},
  cores: number[] = [],
): Promise<BenchProject> {
  const host = await startGitHost();
  const repository = await createRepository(join(host.folder, 'bench.git'));
  const sha = await repository.commit({ message: 'Measure', ...content });
  const env = {
    HEADRACE_SSH_CONFIG: host.sshConfig,
    HEADRACE_BUILD_NETWORK: 'none',
    HEADRACE_CONCURRENCY: '2',
    ...settings,
  };
  const service = await startHeadrace(undefined, env, { core: cores[0] });
  const others: Service[] = [];
  const make = async (name: string): Promise<{ path: string; suite: Item }> => {
    const project = await call<Item & { ssh_public_key: string }>(service, '/projects', {
      name,
      repository_url: host.url('bench.git'),
    });
    await host.authorize(project.ssh_public_key);
    const at = `/projects/${project.id_str}`;
    return { path: at, suite: await call<Item>(service, `${at}/suites`, { name: 'bench', command: 'true' }) };
  };
  const { path, suite } = await make('bench');

  const end = async (build: string): Promise<void> => {
    while (unfinished.has((await call<Item>(service, build)).build_state)) await pause(20);
  };
  const build = async (at = path): Promise<string> => {
    const request = await call<Item>(service, `${at}/build_requests`, { commit_ref: sha });
    for (;;) {
      const { commit_id_str: commit } = await call<{ commit_id_str: string }>(
        service,
        `${at}/build_requests/${request.id_str}`,
      );
      const [newest] = commit === '' ? [] : await call<Item[]>(service, `${at}/commits/${commit}/builds?limit=1`);
      if (newest) return `${at}/builds/${newest.id_str}`;
      await pause(20);
    }
  };
  await end(await build());
  const runnerPid = (): number => Number(readFileSync(join(service.dataDir, 'runner', 'pid'), 'utf8'));
  return {
    service,
    repository,
    path,
    suite: `${path}/suites/${suite.id_str}`,
    sha,
    runnerPid,
    pids: () => ({ server: service.pid, runner: runnerPid() }),
    command: (command) => call(service, `${path}/suites/${suite.id_str}`, { command }, 'PUT'),
    build: () => build(),
    end,
    async another(name) {
      const { path: at } = await make(name);
      await end(await build(at));
      return at;
    },
    async anotherServer() {
      const keyFile = join(service.dataDir, 'master.key');
      const other = await startHeadrace(
        undefined,
        { ...env, HEADRACE_MASTER_KEY_FILE: keyFile },
        { core: cores[others.length + 1] },
      );
      others.push(other);
      return { ...other, authorization: service.authorization };
    },
    async stop() {
      for (const other of others) await other.stop();
      await service.stop();
      await host.close();
    },
  };
}
