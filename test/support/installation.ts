import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { signalAll } from '../../src/runner/sandbox/descendants.ts';
import type { Answer, Credentials } from './client.ts';
import { copyTables, settingsFor, temporaryFolder, type TestDatabase } from './databases.ts';
import type { CleanUp } from './folders.ts';
import { command } from './command.ts';
import { serve, type Serving } from './program.ts';
import { commandsWith } from './process-list.ts';
import { createRepository, type Repository } from './repository.ts';
import { startGitHost, type GitHost } from './sshd.ts';
import { growingPauses, longestWait } from './pauses.ts';
import { copyCertificate } from './templates.ts';

/** A whole Headrace as an operator has it: the program, its runner, and a git host. */
export interface Installation {
  host: GitHost;
  folder: string;
  address(): string;
  /** The program's environment, for other commands. */
  env: Record<string, string>;
  project(name?: string): Promise<Project>;
  /** The API at its present address: a restarted server has another one. */
  api(): Caller;
  /** Any answer, also an error. With a form it is a POST. */
  ask(path: string, form?: Record<string, string>): Promise<Answer>;
  /** The running program itself. */
  serving(): Serving;
  /** The credentials of its first user. */
  admin: Credentials;
  /** Another user with an account, and the API for that user. */
  person(email: string): Promise<() => Caller>;
  killServer(): Promise<void>;
  startServer(): Promise<void>;
  killRunner(): Promise<void>;
  /** Kills the processes by which the runner opens sandboxes. */
  killMountHelpers(): Promise<void>;
  /** Stops it as an operator does; the runner ends too. */
  stop(): Promise<void>;
}

export interface Item {
  id_str: string;
  [field: string]: unknown;
}

export interface Build extends Item {
  suite_id_str: string;
  build_state: string;
  exit_status: number | null;
  attempt: number;
  failure_reason: string;
}

interface Request extends Item {
  build_state: string;
}

type Place = Pick<TestDatabase, 'kind' | 'emptyUrl' | 'afterwards'> & Partial<Pick<TestDatabase, 'migratedUrl'>>;

export async function startInstallation(
  database: Place,
  settings: Record<string, string> = {},
  options: { runner?: boolean; port?: number; folder?: string; within?: string[] } = {},
): Promise<Installation> {
  const folder = options.folder ?? temporaryFolder();
  const host = await startGitHost();
  const env = {
    ...(await prepare(database, folder)),
    HEADRACE_SSH_CONFIG: host.sshConfig,
    HEADRACE_BUILD_NETWORK: 'none',
    HEADRACE_CONCURRENCY: '2',
    ...settings,
  };
  // The last server is stopped as an operator does it; whatever is left then is killed.
  const kills: CleanUp[] = [];
  database.afterwards(async () => {
    for (const kill of [...kills, killRunner]) await kill();
    await untilGone(folder);
    await host.close();
    await removeTree(folder);
  });
  const killRunner = async (): Promise<void> => {
    // By command line, which also finds a runner that is just starting.
    for (const pid of commandsWith(`runner\0--local\0--data-dir\0${folder}\0`)) process.kill(pid, 'SIGKILL');
  };
  const begin = (): Promise<Serving> =>
    serve({ afterwards: (kill) => void kills.push(kill) }, folder, env, { runner: true, ...options });
  let serving: Serving = await begin();
  const start = async (): Promise<void> => {
    serving = await begin();
  };
  const key = /API key\s+(\S+)/.exec(serving.output)?.[1] ?? '';
  const stop = async (): Promise<void> => {
    serving.process.kill('SIGTERM');
    await serving.exited;
  };
  database.afterwards(stop);
  const admin = { email: 'admin@localhost', api_key: key };
  const ask = (path: string, form?: Record<string, string>): Promise<Answer> =>
    serving.api.ask(form ? 'POST' : 'GET', path, {
      as: admin,
      ...(form && { form }),
    });
  const api = (): Caller => callerOf(serving, admin);
  return {
    api,
    ask,
    serving: () => serving,
    admin,
    host,
    folder,
    address: () => serving.address,
    env,
    stop,
    startServer: start,
    async person(email) {
      const made = await command(['admin', 'user', 'create', email, '--data-dir', folder], env);
      const credentials = JSON.parse(made.stdout.toString()) as Credentials;
      return () => callerOf(serving, credentials);
    },
    async killServer() {
      serving.process.kill('SIGKILL');
      await serving.exited;
    },
    killRunner,
    async killMountHelpers() {
      const [runner = 0] = commandsWith(`runner\0--local\0--data-dir\0${folder}\0`);
      const helpers = commandsWith('/mount-helper.pl\0').filter((pid) => parentOf(pid) === runner);
      assert.notDeepEqual(helpers, []);
      signalAll(helpers, 'SIGKILL'); // one may end with another
    },
    async project(name = 'app') {
      const repository = await createRepository(join(host.folder, `${name}.git`));
      await repository.commit({ message: 'Begin' });
      const form = { name, repository_url: host.url(`${name}.git`) };
      const project = await api().post('/projects', form);
      const publicKey = String(project.ssh_public_key);
      await host.authorize(publicKey);
      return { ...projectOf(api, `/projects/${project.id_str}`, repository), publicKey };
    },
  };
}

/** Gives it the tables and the certificate that its first start would make, where the run has them ready. */
async function prepare({ kind, emptyUrl, migratedUrl }: Place, folder: string): Promise<Record<string, string>> {
  if (!migratedUrl) return settingsFor({ kind, emptyUrl });
  copyCertificate(folder);
  if (kind === 'sqlite') copyTables(join(folder, 'headrace.db'));
  return settingsFor({ kind, emptyUrl: migratedUrl });
}

export interface Caller {
  get<T = Item>(path: string): Promise<T>;
  post(path: string, form?: Record<string, string>): Promise<Item>;
  put(path: string, form: Record<string, string>): Promise<Item>;
  upload(path: string, bytes: Uint8Array): Promise<Item>;
  delete(path: string): Promise<unknown>;
  text(path: string): Promise<string>;
  bytes(path: string): Promise<Buffer>;
}

function callerOf({ api }: Serving, as: Credentials): Caller {
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
    bytes: async (path) => (await answered('GET', path)).bytes,
  };
}

export interface Project extends ReturnType<typeof projectOf> {
  publicKey: string;
}

const unfinished = new Set(['enqueued', 'fetching', 'building']);

/** Actions on a project, named as a user would. */
function projectOf(api: () => Caller, path: string, repository: Repository) {
  const commits = (): Promise<Item[]> => api().get(`${path}/commits`);
  const builds = (commit: Item | undefined): Promise<Build[]> => api().get(`${path}/commits/${commit?.id_str}/builds`);
  const ask = async (ref: string): Promise<Request> =>
    (await api().post(`${path}/build_requests`, { commit_ref: ref })) as Request;
  const end = async ({ id_str: id }: Item, longest = longestWait): Promise<Request> => {
    const wait = growingPauses();
    for (const startedAt = Date.now(); ; await wait()) {
      const request = await api().get<Request>(`${path}/build_requests/${id}`);
      if (!unfinished.has(request.build_state)) return request;
      assert.ok(Date.now() - startedAt < longest, `the request is ${request.build_state} for ever`);
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
    suites: (): Promise<Item[]> => api().get(`${path}/suites`),
    ask,
    end,
    log,
    logBytes: (build: Item | undefined): Promise<Buffer> => api().bytes(`${path}/builds/${build?.id_str}/log.txt`),
    build: async (ref: string, longest?: number) => end(await ask(ref), longest),
    fetchLog: ({ id_str: id }: Item) => api().text(`${path}/build_requests/${id}/log.txt`),
    cancel: ({ id_str: id }: Item) => api().post(`${path}/build_requests/${id}/cancel`),
    /** The suite is removed after the test that makes it. */
    async suite(t: TestContext, name: string, command: string, more: Record<string, string> = {}): Promise<string> {
      const { id_str: id } = await api().post(`${path}/suites`, { name, command, ...more });
      t.after(() => api().delete(`${path}/suites/${id}`));
      return id;
    },
    /** Sets the command of the suite's next build. */
    command: (suite: string, command: string) => api().put(`${path}/suites/${suite}`, { command }),
    rule: (suite: string, subject: string, operator: string, value: string) =>
      api().post(`${path}/suites/${suite}/rules`, { subject, operator, value }),
    attach: (suite: string, dependency: Item) =>
      api().post(`${path}/suites/${suite}/dependencies`, { dependency_id: dependency.id_str }),
    variable: (suite: string, name: string, content: string, more: { secret?: string } = {}) =>
      api().post(`${path}/suites/${suite}/environment_variables`, { name, content, ...more }),
    /** A variable of the project; it is removed after the test that makes it. */
    async variableOfAll(t: TestContext, name: string, content: string): Promise<void> {
      const { id_str: id } = await api().post(`${path}/environment_variables`, { name, content });
      t.after(() => api().delete(`${path}/environment_variables/${id}`));
    },
    /** Waits until the newest build of a suite has written this to its log. */
    async untilLogged(suite: string, said: RegExp): Promise<void> {
      for (const wait = growingPauses(); ; await wait()) {
        const [commit] = await commits();
        const newest = commit && (await builds(commit)).find((build) => build.suite_id_str === suite);
        if (newest && said.test(await log(newest))) return;
      }
    },
  };
}

/** NaN for a process that has ended meanwhile, such as one of another test. */
function parentOf(pid: number): number {
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  } catch {
    return Number.NaN;
  }
}

/** A killed process is there for a moment longer, and its folder is not to be removed under it. */
async function untilGone(folder: string): Promise<void> {
  for (const deadline = performance.now() + longestWait; commandsWith(folder).length > 0; await pause(20)) {
    assert.ok(performance.now() < deadline, `processes are left: ${commandsWith(folder).join(', ')}`);
  }
}
