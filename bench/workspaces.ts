import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openCheckouts } from '../src/runner/checkouts.ts';
import { openMirrors } from '../src/runner/git/mirrors.ts';
import { openSandboxes } from '../src/runner/sandbox/index.ts';
import type { Job } from '../src/runner/sandbox/types.ts';
import { createRepository } from '../test/support/repository.ts';
import { makeKeyPair, startGitHost } from '../test/support/sshd.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { timed } from './support/timed.ts';

const files = 20_000;
const commits = 3;
const patient = new AbortController().signal;

/** The time for the workspace of a commit's second suite. The checkout was made for the first. */
export const workspaces: Benchmark = {
  name: 'workspaces',
  async run() {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
    const host = await startGitHost();
    const repository = await createRepository(join(host.folder, 'large.git'));
    const { publicKey, privateKey } = await makeKeyPair();
    await host.authorize(publicKey);
    const source = { projectId: '1', repositoryUrl: host.url('large.git'), privateKey };
    const sandboxes = await openSandboxes({
      stateDir: join(folder, 'sandboxes'),
      network: 'none',
      isolation: 'required',
      log: () => {},
      prepare: 2,
    });
    const mirrors = await openMirrors({ dir: join(folder, 'git'), sandboxes, sshConfig: host.sshConfig });
    try {
      const checkouts = await openCheckouts(join(folder, 'checkouts'), mirrors, () => {});
      const workspace = (sha: string) => checkouts.of(source, { sha, isFork: false }, () => {}, patient);
      const first: number[] = [];
      const second: number[] = [];
      for (let turn = 0; turn < commits; turn += 1) {
        const sha = await repository.commit({ files: manyFiles(turn) });
        await mirrors.fetch({ ...source, commitRef: sha, previous: {}, writeLog: () => {}, signal: patient });
        first.push(await timed(async () => void (await workspace(sha))));
        // Includes the sandbox, because the workspace is ready when a command sees it.
        second.push(
          await timed(async () => {
            using checkout = await workspace(sha);
            const { exitStatus } = await sandboxes.run(glance(checkout.path));
            if (exitStatus !== 0) throw new Error('the workspace is not there');
          }),
        );
      }
      return [
        {
          what: `workspace of the second suite on ${files} files, over the first checkout`,
          value: median(second) / median(first),
          limit: { atMost: 0.1 },
          from: `${round(median(second))} ms with its sandbox against ${round(median(first))} ms`,
        },
      ];
    } finally {
      await sandboxes.close();
      await mirrors.close();
      await host.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

function manyFiles(turn: number): Record<string, string> {
  const paths = Array.from({ length: files }, (_, number) => `src/${number % 200}/file-${number}.txt`);
  return Object.fromEntries(paths.map((path) => [path, `${turn} ${path}\n`.repeat(20)]));
}

function glance(checkout: string): Job {
  return {
    id: 'glance',
    steps: [{ name: 'look', command: 'test -e src/199/file-199.txt && echo changed > src/0/file-0.txt' }],
    environment: {},
    workspace: { checkout },
    limits: { memoryBytes: 2 ** 30, processes: 100, timeoutMs: 60_000 },
    output: () => {},
    signal: patient,
  };
}
