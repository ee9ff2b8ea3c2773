import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../src/shared/lib/processes.ts';
import { openMirrors } from '../src/runner/git/mirrors.ts';
import { openSandboxes } from '../src/runner/sandbox/index.ts';
import { createRepository } from '../test/support/repository.ts';
import { makeKeyPair, startGitHost, type GitHost } from '../test/support/sshd.ts';
import { median, round, type Benchmark } from './support/report.ts';

const turns = 60;
const commits = 200;
const restMs = 100;
const patient = new AbortController().signal;

/** The cost of another fetch from a known repository, over a bare `git fetch`. */
export const fetches: Benchmark = {
  name: 'fetches',
  async run() {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
    const host = await startGitHost();
    const repository = await createRepository(join(host.folder, 'known.git'));
    let sha = '';
    for (let count = 0; count < commits; count += 1) sha = await repository.commit();
    const { publicKey, privateKey } = await makeKeyPair();
    await host.authorize(publicKey);
    const source = { projectId: '1', repositoryUrl: host.url('known.git'), privateKey };
    const sandboxes = await openSandboxes({
      stateDir: join(folder, 'sandboxes'),
      network: 'none',
      etc: 'bare',
      isolation: 'required',
      log: () => {},
    });
    const mirrors = await openMirrors({ dir: join(folder, 'git'), sshConfig: host.sshConfig, sandboxes });
    const fetch = async (commitRef: string): Promise<void> => {
      await mirrors.fetch({ ...source, commitRef, previous: {}, writeLog: () => {}, signal: patient });
    };
    const bare = await bareFetcher(folder, host, source.repositoryUrl, privateKey);
    try {
      await fetch('main');
      const times = { bare: [] as number[], branch: [] as number[], sha: [] as number[] };
      for (let turn = 0; turn < turns; turn += 1) {
        times.bare.push(await timed(bare.fetch));
        times.branch.push(await timed(() => fetch('main')));
        times.sha.push(await timed(() => fetch(sha)));
      }
      const over = (ours: number[]): { value: number; from: string } => ({
        value: median(ours) / median(times.bare),
        from: `${round(median(ours))} ms against ${round(median(times.bare))} ms`,
      });
      return [
        {
          what: 'a branch with nothing new, over a bare git fetch on an open connection',
          limit: { atMost: 2.8 },
          ...over(times.branch),
        },
        { what: 'a full SHA that the mirror has, over the same', limit: { atMost: 0.8 }, ...over(times.sha) },
      ];
    } finally {
      await bare.close();
      await mirrors.close();
      await sandboxes.close();
      await host.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

interface BareFetcher {
  fetch: () => Promise<void>;
  close: () => Promise<void>;
}

/** Only git, with an ssh that uses an open connection. */
async function bareFetcher(folder: string, host: GitHost, url: string, privateKey: string): Promise<BareFetcher> {
  const [key, config, socket, gitDir] = ['key', 'config', 'socket', 'bare.git'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
    string,
  ];
  writeFileSync(key, privateKey, { mode: 0o600 });
  writeFileSync(
    config,
    `Include ${host.sshConfig}\nHost *\n  IdentityFile ${key}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n`,
  );
  const destination = url.slice(0, url.indexOf(':'));
  const ssh = ['-F', config, '-S', socket];
  await succeed('ssh', [...ssh, '-M', '-N', '-f', '-o', 'ControlPersist=yes', destination]);
  await succeed('git', ['init', '--quiet', '--bare', gitDir]);
  const env = { ...process.env, GIT_SSH_COMMAND: `ssh ${ssh.join(' ')}` };
  const refs = ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*'];
  const args = [
    `--git-dir=${gitDir}`,
    'fetch',
    '--quiet',
    '--no-tags',
    '--no-write-fetch-head',
    '--prune',
    url,
    ...refs,
  ];
  const fetch = (): Promise<void> => succeed('git', args, env);
  await fetch();
  return { fetch, close: () => succeed('ssh', [...ssh, '-O', 'exit', destination]) };
}

async function succeed(program: string, args: string[], env: NodeJS.ProcessEnv = process.env): Promise<void> {
  const finished = await run(program, args, { env });
  if (finished.status !== 0) throw new Error(`${program}: ${finished.stderr.toString()}`);
}

/** After a pause, as between real requests. So the clean-up after the last one does not count. */
async function timed(work: () => Promise<void>): Promise<number> {
  await pause(restMs);
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
