import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeTree } from '../../../src/shared/lib/remove-tree.ts';
import { FetchError, type FetchFailure } from '../../../src/runner/git/failures.ts';
import type { FetchedCommit, FetchRequest } from '../../../src/runner/git/fetch.ts';
import { openMirrors, type Mirrors, type MirrorsOptions } from '../../../src/runner/git/mirrors.ts';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../../src/runner/sandbox/types.ts';
import { longestWait } from '../../support/pauses.ts';
import { createRepository, type Repository } from '../../support/repository.ts';
import { makeKeyPair, startGitHost, type GitHost } from '../../support/sshd.ts';

/** A git host with one repository, a project whose key is installed there, and the mirrors of a runner. */
export interface Workplace {
  host: GitHost;
  repository: Repository;
  key: { publicKey: string; privateKey: string };
  mirrors: Mirrors;
  /** Where git works. */
  sandboxes: Sandboxes;
  /** The runner's folder. */
  dir: string;
  /** A folder for what the test makes. */
  folder: string;
  /** What every request of this project says. */
  project: Pick<FetchRequest, 'projectId' | 'repositoryUrl' | 'writeLog' | 'signal'> & {
    privateKey: string;
    isFork: boolean;
  };
  fetch: (commitRef: string, more?: Partial<FetchRequest>) => Promise<FetchedCommit>;
  /** Expects the fetch to fail in this way, and answers the log. */
  fetchFails: (kind: FetchFailure, commitRef: string, more?: Partial<FetchRequest>) => Promise<string>;
  /** Everything that was said since the last call. */
  log: () => string;
  /** Another runner, or the same one after a restart. */
  openMirrors: (options?: Partial<MirrorsOptions>) => Promise<Mirrors>;
}

/** `t` cleans up, as a test does at its end. */
export async function workplace(
  t: { after(cleanUp: () => Promise<void>): void },
  options: Partial<MirrorsOptions> = {},
): Promise<Workplace> {
  const folder = await mkdtemp(join(tmpdir(), 'git-test-'));
  const stateDir = await mkdtemp(join(tmpdir(), 'git-test-sandboxes-'));
  const opened: Mirrors[] = [];
  const host = await startGitHost();
  const { isolation = 'required' } = options;
  const sandboxes = await openSandboxes({ stateDir, network: 'none', etc: 'bare', isolation, log: () => {} });
  t.after(async () => {
    await sandboxes.close();
    await Promise.all(opened.map((mirrors) => mirrors.close()));
    await host.close();
    await Promise.all([folder, stateDir].map(removeTree));
  });
  const repository = await createRepository(join(host.folder, 'app.git'));
  const key = await makeKeyPair('project 1');
  await host.authorize(key.publicKey);
  const dir = join(folder, 'runner');
  const open = async (more: Partial<MirrorsOptions> = {}): Promise<Mirrors> => {
    // Tests count connections, and on a slow machine they take longer than one is usually kept.
    const usual = { dir, sandboxes, sshConfig: host.sshConfig, connectionMs: longestWait };
    const mirrors = await openMirrors({ ...usual, ...options, ...more });
    opened.push(mirrors);
    return mirrors;
  };
  const mirrors = await open();
  let said = '';
  const project = {
    projectId: '1',
    repositoryUrl: host.url('app.git'),
    privateKey: key.privateKey,
    isFork: false,
    writeLog: (text: Buffer | string) => void (said += text.toString()),
    signal: new AbortController().signal,
  };
  const log = (): string => {
    const text = said;
    said = '';
    return text;
  };
  const fetch: Workplace['fetch'] = (commitRef, more) => mirrors.fetch({ ...project, commitRef, ...more });
  const fetchFails: Workplace['fetchFails'] = async (kind, commitRef, more) => {
    log();
    const error = await fetch(commitRef, more).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    const text = log();
    if (!(error instanceof FetchError)) throw new Error(`${kind} was expected. The log:\n${text}`, { cause: error });
    if (error.kind !== kind) throw new Error(`${kind} was expected, not ${error.kind}. The log:\n${text}`);
    if (!text.includes(error.message)) throw new Error(`The log does not say "${error.message}":\n${text}`);
    return text;
  };
  return { host, repository, key, mirrors, sandboxes, dir, folder, project, fetch, fetchFails, log, openMirrors: open };
}
