import assert from 'node:assert/strict';
import type { Record_ } from './client.ts';
import type { CommitReport } from '../../src/shared/protocol/index.ts';
import { before } from 'node:test';
import { describeWithRunner, type ScriptedRunner, type Task } from './runner.ts';
import type { Service } from './service.ts';
import type { User } from './user.ts';
import type { SuiteOrder } from '../../src/shared/protocol/index.ts';

/** A project with suites, and what a person sees of its builds. */
export class SuiteRuns {
  readonly user: User;
  readonly project: Record_;
  readonly #runner: ScriptedRunner;

  constructor(user: User, project: Record_, runner: ScriptedRunner) {
    this.user = user;
    this.project = project;
    this.#runner = runner;
  }

  static async begin(user: User, runner: ScriptedRunner): Promise<SuiteRuns> {
    return new SuiteRuns(user, await user.createProject(), runner);
  }

  get path(): string {
    return `/projects/${this.project.id}`;
  }

  suite(fields: Record<string, string> = {}): Promise<Record_> {
    return this.user.createSuite(this.project, fields);
  }

  change(suite: Record_, fields: Record<string, string>) {
    return this.user.put(`${this.path}/suites/${suite.id}`, fields);
  }

  /** Asks for a build whose commit has to be fetched, and fetches it. */
  async fetched(fields: Record<string, string> = {}, commit: Partial<CommitReport> = {}): Promise<Record_> {
    const request = await this.user.post(`${this.path}/build_requests`, { commit_ref: 'main', ...fields });
    await (await this.#runner.take('fetch_commit')).fetched(commit);
    return request.record;
  }

  /** The states of the request, the commit and the project. */
  async rolledUp(request: Record_): Promise<string> {
    const [commit] = (await this.user.get(`${this.path}/commits`)).list;
    const seen = (await this.user.get(`${this.path}/build_requests/${request.id}`)).record;
    const project = (await this.user.get(this.path)).record;
    return [seen, commit, project].map((one) => String(one?.build_state)).join(' ');
  }

  /** All builds of the newest commit, oldest first. */
  async builds(): Promise<Record_[]> {
    const [commit] = (await this.user.get(`${this.path}/commits`)).list;
    return (await this.user.get(`${this.path}/commits/${commit?.id}/builds?limit=1000`)).list.toReversed();
  }

  /** The same, each as a text made of these fields. */
  async seen(...fields: string[]): Promise<string[]> {
    return (await this.builds()).map((build) => fields.map((field) => String(build[field])).join(' '));
  }

  /** Everything that waits to be run, by its variant. */
  async take(count: number): Promise<Map<string, Task<SuiteOrder>>> {
    const tasks = new Map<string, Task<SuiteOrder>>();
    for (let taken = 0; taken < count; taken += 1) {
      const task = await this.#runner.take('run_suite');
      tasks.set(task.order.work.environment.HEADRACE_VARIANT ?? '', task);
    }
    return tasks;
  }
}

/** What tests about runs of suites begin with. */
export interface RunsBench {
  service: Service;
  runner: ScriptedRunner;
  alice: () => User;
  /** A new project of hers. */
  begin: () => Promise<SuiteRuns>;
}

/** Tests about runs of suites, on every database. */
export function describeSuiteRuns(
  name: string,
  define: (bench: RunsBench) => void,
  options: Parameters<typeof describeWithRunner>[2] = {},
): void {
  describeWithRunner(
    name,
    (service, runner) => {
      let user: User | undefined;
      before(async () => {
        user = await service.user();
      });
      const alice = (): User => user ?? assert.fail('there is nobody yet');
      define({ service, runner, alice, begin: () => SuiteRuns.begin(alice(), runner) });
    },
    options,
  );
}
