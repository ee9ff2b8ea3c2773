import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { temporaryFolder, type TestDatabase } from './databases.ts';
import { serve, type Serving } from './program.ts';
import { createRepository, type Repository } from './repository.ts';
import { startGitHost, type GitHost } from './sshd.ts';

/** A whole Headrace as an operator has it: the program, its runner, and a git host that it fetches from. */
export interface Installation {
  host: GitHost;
  project(): Promise<Project>;
  /** The API as it is now: a server that was started again has another address. */
  api(): Caller;
  folder: string;
  killServer(): Promise<void>;
  startServer(): Promise<void>;
  killRunner(): Promise<void>;
}

export interface Item {
  id_str: string;
  [field: string]: unknown;
}

interface Build extends Item {
  suite_id_str: string;
  build_state: string;
  exit_status: number | null;
  attempt: number;
  failure_reason: string;
}

interface Request extends Item {
  build_state: string;
}

type Place = Pick<TestDatabase, 'kind' | 'emptyUrl' | 'afterwards'>;

export async function startInstallation(database: Place): Promise<Installation> {
  const folder = temporaryFolder();
  const host = await startGitHost();
  const url = database.kind === 'postgres' ? { HEADRACE_DATABASE_URL: await database.emptyUrl() } : {};
  const env = {
    ...url,
    HEADRACE_SSH_CONFIG: host.sshConfig,
    HEADRACE_BUILD_NETWORK: 'none',
    HEADRACE_CONCURRENCY: '2',
  };
  let serving: Serving = await serve(database, folder, env, { runner: true });
  const start = async (): Promise<void> => {
    serving = await serve(database, folder, env, { runner: true });
  };
  const key = /API key\s+(\S+)/.exec(serving.output)?.[1] ?? '';
  database.afterwards(async () => {
    serving.process.kill('SIGTERM');
    await serving.exited;
    await host.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const api = (): Caller => callerOf(serving, key);
  return {
    api,
    folder,
    host,
    startServer: start,
    async killServer() {
      serving.process.kill('SIGKILL');
      await serving.exited;
    },
    async killRunner() {
      process.kill(Number(readFileSync(join(folder, 'runner', 'pid'), 'utf8')), 'SIGKILL');
    },
    async project() {
      const repository = await createRepository(join(host.folder, 'app.git'));
      await repository.commit({ message: 'Begin' });
      const form = { name: 'app', repository_url: host.url('app.git') };
      const project = await api().post('/projects', form);
      const publicKey = String(project.ssh_public_key);
      await host.authorize(publicKey);
      return { ...projectOf(api, `/projects/${project.id_str}`, repository), publicKey };
    },
  };
}

export interface Caller {
  get<T = Item>(path: string): Promise<T>;
  post(path: string, form?: Record<string, string>): Promise<Item>;
  put(path: string, form: Record<string, string>): Promise<Item>;
  upload(path: string, bytes: Uint8Array): Promise<Item>;
  delete(path: string): Promise<unknown>;
  text(path: string): Promise<string>;
}

function callerOf({ api }: Serving, key: string): Caller {
  const as = { email: 'admin@localhost', api_key: key };
  const answered = async (method: string, path: string, form?: Record<string, string>, body?: Uint8Array) => {
    const answer = await api.ask(method, path, { as, ...(form ? { form } : {}), ...(body ? { body } : {}) });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer;
  };
  const response = (text: string): unknown => (JSON.parse(text) as { response: unknown }).response;
  return {
    get: async <T>(path: string) => response((await answered('GET', path)).text) as T,
    post: async (path, form = {}) => response((await answered('POST', path, form)).text) as Item,
    put: async (path, form) => response((await answered('PUT', path, form)).text) as Item,
    upload: async (path, bytes) => response((await answered('POST', path, undefined, bytes)).text) as Item,
    delete: (path) => answered('DELETE', path),
    text: async (path) => (await answered('GET', path)).text,
  };
}

export interface Project extends ReturnType<typeof projectOf> {
  publicKey: string;
}

const unfinished = new Set(['enqueued', 'fetching', 'building']);

/** A project in the words of those who work on it. */
function projectOf(api: () => Caller, path: string, repository: Repository) {
  const commits = (): Promise<Item[]> => api().get(`${path}/commits`);
  const builds = (commit: Item | undefined): Promise<Build[]> => api().get(`${path}/commits/${commit?.id_str}/builds`);
  const ask = async (ref: string): Promise<Request> =>
    (await api().post(`${path}/build_requests`, { commit_ref: ref })) as Request;
  const end = async ({ id_str: id }: Item): Promise<Request> => {
    for (;;) {
      const request = await api().get<Request>(`${path}/build_requests/${id}`);
      if (!unfinished.has(request.build_state)) return request;
      await pause(50);
    }
  };
  const log = (build: Item | undefined): Promise<string> => api().text(`${path}/builds/${build?.id_str}/log.txt`);
  return {
    id_str: path.slice('/projects/'.length),
    api,
    path,
    repository,
    commits,
    builds,
    ask,
    end,
    log,
    build: async (ref: string) => end(await ask(ref)),
    fetchLog: ({ id_str: id }: Item) => api().text(`${path}/build_requests/${id}/log.txt`),
    cancel: ({ id_str: id }: Item) => api().post(`${path}/build_requests/${id}/cancel`),
    /** The suite is there for the test that makes it. */
    async suite(t: TestContext, name: string, command: string): Promise<string> {
      const { id_str: id } = await api().post(`${path}/suites`, { name, command });
      t.after(() => api().delete(`${path}/suites/${id}`));
      return id;
    },
    rule: (suite: string, subject: string, operator: string, value: string) =>
      api().post(`${path}/suites/${suite}/rules`, { subject, operator, value }),
    attach: (suite: string, dependency: Item) =>
      api().post(`${path}/suites/${suite}/dependencies`, { dependency_id: dependency.id_str }),
    variable: (suite: string, name: string, content: string) =>
      api().post(`${path}/suites/${suite}/environment_variables`, { name, content }),
    /** Waits until the newest build of a suite has said something. */
    async untilLogged(suite: string, said: RegExp): Promise<void> {
      for (;;) {
        const [commit] = await commits();
        const newest = commit && (await builds(commit)).find((build) => build.suite_id_str === suite);
        if (newest && said.test(await log(newest))) return;
        await pause(50);
      }
    },
  };
}
