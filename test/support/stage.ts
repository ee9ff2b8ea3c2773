import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { keepReserve } from '../../src/shared/lib/disk-reserve.ts';
import type { Link } from '../../src/shared/protocol/index.ts';
import type { CacheStore } from '../../src/runner/cache-store.ts';
import { FetchError } from '../../src/runner/git/failures.ts';
import type { Mirrors } from '../../src/runner/git/mirrors.ts';
import { openLink } from '../../src/runner/link.ts';
import { openOutbox } from '../../src/runner/outbox.ts';
import { startRunner, type Runner } from '../../src/runner/runner.ts';
import type { Ended, Job, Reason } from '../../src/runner/sandbox/types.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import type { Record_ } from './client.ts';
import { aCommit } from './runner.ts';
import type { Service } from './service.ts';
import type { User } from './user.ts';
import { longestWait } from './pauses.ts';

/**
 * The real server with the real runner and their real connection, but nothing slow behind the runner: commands are
 * short scripts that are interpreted, and repositories contain whatever is asked for.
 *
 * A command is a list of acts separated by commas: `say hello`, `exit 3`, `hang` until it is cancelled, `break` like a
 * machine that fails, or a reason for an early end, such as `out_of_memory`. The part after a slash is for the suite's
 * next attempt. A ref is a branch with the newest commit, `main` is the default one; `missing` does not exist, `broken`
 * fails and `slow` takes until it is cancelled.
 */
export class Stage {
  readonly #service: Service;
  readonly #owner: User;
  readonly #attempts = new Map<string, number>();
  #runner: Runner | undefined;
  #link: ReturnType<typeof openLink> | undefined;

  private constructor(service: Service, owner: User) {
    this.#service = service;
    this.#owner = owner;
  }

  static async open(service: Service): Promise<Stage> {
    const stage = new Stage(service, await service.user());
    await stage.begin();
    return stage;
  }

  /** `line` can be put between the runner and the server. */
  async begin(line: (link: Link) => Link = (link) => link): Promise<void> {
    this.#link = openLink({ socket: join(this.#service.folder, 'server.sock') });
    this.#runner = await startRunner({
      link: line(this.#link),
      folder: join(this.#service.folder, 'stage'),
      deps: await this.#services(),
      concurrency: 4,
      log: () => {},
    });
  }

  /** The runner dies in the middle of its work, without a message. */
  async leave(): Promise<void> {
    await this.#runner?.stop();
    this.#link?.close();
  }

  /** Everything that the dead runner had is lost. */
  lose(): void {
    this.#service.loseRunner();
  }

  async project(suites: Record<string, string>): Promise<StagedProject> {
    const project = await this.#owner.createProject();
    const ids: Record<string, bigint> = {};
    for (const [name, command] of Object.entries(suites)) {
      ids[name] = (await this.#owner.createSuite(project, { name, command })).id;
    }
    return new StagedProject(this.#owner, project, ids);
  }

  async #services(): Promise<RunnerDeps> {
    const disk = keepReserve({ folders: [] });
    const mirrors: Pick<Mirrors, 'fetch' | 'collect' | 'projects' | 'checkAccess'> = {
      checkAccess: async () => ({
        defaultBranch: 'main',
        branches: ['main'],
        files: ['Makefile', 'sluice.c'],
        workflows: [],
      }),
      projects: async () => [],
      collect: async () => ({ removed: 0, tidied: 0 }),
      fetch: async ({ commitRef, projectId, writeLog, signal }) => {
        await writeLog(`looking for ${commitRef}\n`);
        if (commitRef === 'missing') throw new FetchError('ref_not_found', 'there is no such ref');
        if (commitRef === 'broken') throw new Error('the disk is on fire');
        if (commitRef === 'slow') await aborted(signal);
        const sha = createHash('sha1').update(`${projectId} ${commitRef}`).digest('hex');
        const found = { ...aCommit, sha, branches: [commitRef], branch: commitRef, ref: `refs/heads/${commitRef}` };
        const defaultHead = commitRef === 'main' ? 'this' : 'kept';
        return { ...found, defaultHead, defaultBranch: null, filesTruncated: false, refKind: 'branch' };
      },
    };
    return {
      mirrors: mirrors as Mirrors,
      checkouts: {
        of: async () => ({ path: '/nowhere', misses: [], [Symbol.dispose]: () => {} }),
        missesIn: () => undefined,
        forget: async () => {},
      },
      sandboxes: {
        owner: { uid: 0, gid: 0 },
        whyNoImages: null,
        hasManyUsers: false,
        translatesOwners: true,
        hasLayers: false,
        hasOwnNetwork: false,
        isIsolated: true,
        run: (job) => this.#play(job),
        adopt: async () => {},
        close: async () => {},
      },
      dependencyCache: { take: async () => ({ mounts: [], directoriesAt: () => [], [Symbol.dispose]: () => {} }) },
      images: { lookUp: unused, take: unused, again: unused },
      caches: { projects: () => [], forget: async () => {} } as unknown as CacheStore,
      trees: { projects: () => [], forget: async () => {} } as unknown as CacheStore,
      link: {
        read: unused,
        store: unused,
        storeFiles: unused,
        access: unused,
        tests: unused,
        summary: unused,
        stepPoint: unused,
      },
      scratch: '/nowhere',
      operatorVariables: () => ({}),
      machine: { of: async () => [] },
      outbox: await openOutbox({ folder: join(this.#service.folder, 'stage-outbox'), disk, log: () => {} }),
      disk,
      log: () => {},
      close: async () => {},
    };
  }

  async #play({ steps, environment, output, signal }: Job): Promise<Ended> {
    const suite = `${environment.HEADRACE_PROJECT_ID} ${environment.HEADRACE_SUITE}`;
    const attempt = this.#attempts.get(suite) ?? 0;
    this.#attempts.set(suite, attempt + 1);
    const scripts = (steps[0]?.command ?? '').split(' / ');
    for (const act of (scripts[attempt] ?? scripts.at(-1) ?? '').split(', ')) {
      const [verb, ...words] = act.split(' ');
      if (verb === 'say') await output(Buffer.from(`${words.join(' ')}\n`));
      else if (verb === 'exit') return { exitStatus: Number(words[0]), step: 'command', reason: null };
      else if (verb === 'break') throw new Error('the machine is on fire');
      else if (verb === 'hang') {
        await aborted(signal).catch(() => {});
        return { exitStatus: null, step: 'command', reason: 'cancelled' };
      } else return { exitStatus: null, step: 'command', reason: verb as Reason };
    }
    return { exitStatus: 0, step: 'command', reason: null };
  }
}

async function aborted(signal: AbortSignal): Promise<never> {
  while (!signal.aborted) await pause(2);
  throw signal.reason;
}

const over = new Set(['passed', 'failed', 'errored', 'cancelled']);

/** A project on the stage. The result of a request is one line: its state, and each attempt of each suite. */
export class StagedProject {
  readonly #owner: User;
  readonly #path: string;
  readonly #suites: Record<string, bigint>;

  constructor(owner: User, project: Record_, suites: Record<string, bigint>) {
    this.#owner = owner;
    this.#path = `/projects/${project.id}`;
    this.#suites = suites;
  }

  async ask(ref = 'main'): Promise<bigint> {
    return (await this.#owner.post(`${this.#path}/build_requests`, { commit_ref: ref })).record.id;
  }

  /** Starts a build and waits for its end. */
  async build(ref = 'main'): Promise<string> {
    return this.end(await this.ask(ref));
  }

  async end(request: bigint): Promise<string> {
    return this.until(request, (state) => over.has(state));
  }

  async until(request: bigint, isIt: (state: string, told: string) => boolean): Promise<string> {
    for (const startedAt = Date.now(); ; await pause(3)) {
      const { build_state: state } = (await this.#owner.get(`${this.#path}/build_requests/${request}`)).record;
      const told = [String(state), ...(await this.#attempts())].join(' | ');
      if (isIt(String(state), told)) return told;
      assert.ok(Date.now() - startedAt < longestWait, `it stays ${told}`);
    }
  }

  async cancel(request: bigint): Promise<void> {
    await this.#owner.post(`${this.#path}/build_requests/${request}/cancel`);
  }

  async rerun(request: bigint, fields: Record<string, string> = {}): Promise<string> {
    assert.equal((await this.#owner.post(`${this.#path}/build_requests/${request}/rerun`, fields)).status, 200);
    return this.end(request);
  }

  async restart(suite: string, request: bigint): Promise<string> {
    const [newest] = (await this.#builds()).filter(({ suite_id: id }) => id === this.#suites[suite]);
    assert.equal((await this.#owner.post(`${this.#path}/builds/${newest?.id}/restart`)).status, 201);
    return this.end(request);
  }

  async rule(suite: string, subject: string, operator: string, value: string): Promise<void> {
    await this.#owner.post(`${this.#path}/suites/${this.#suites[suite]}/rules`, { subject, operator, value });
  }

  async state(): Promise<unknown> {
    return (await this.#owner.get(this.#path)).record.build_state;
  }

  /** The log of a suite's newest attempt. */
  async log(suite: string): Promise<string> {
    const [newest] = (await this.#builds()).filter(({ suite_id: id }) => id === this.#suites[suite]);
    return (await this.#owner.get(`${this.#path}/builds/${newest?.id}/log.txt`)).text;
  }

  async fetchLog(request: bigint): Promise<string> {
    return (await this.#owner.get(`${this.#path}/build_requests/${request}/log.txt`)).text;
  }

  async #builds(): Promise<Record_[]> {
    const commits = (await this.#owner.get(`${this.#path}/commits`)).list;
    const builds = commits.map(async ({ id }) => (await this.#owner.get(`${this.#path}/commits/${id}/builds`)).list);
    return (await Promise.all(builds)).flat();
  }

  async #attempts(): Promise<string[]> {
    const names = Object.entries(this.#suites);
    const lines = (await this.#builds()).map((build) => {
      const name = names.find(([, id]) => id === build.suite_id)?.[0] ?? '?';
      const detail = String(build.failure_reason) || String(build.exit_status);
      const shown = detail === 'null' || detail === '0' ? '' : ` ${detail}`;
      return `${name} ${String(build.attempt)} ${String(build.build_state)}${shown}`;
    });
    return lines.toSorted();
  }
}

function unused(): never {
  throw new Error('nothing on this stage is compiled');
}
