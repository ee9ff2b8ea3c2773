import assert from 'node:assert/strict';
import type { Trigger } from '../../src/server/lifecycle/requests.ts';
import type { CommitReport } from '../../src/shared/protocol/index.ts';
import type { Record_ } from './client.ts';
import { aCommit, type ScriptedRunner, type Task } from './runner.ts';
import type { Service } from './service.ts';
import { trigger } from './triggered.ts';
import type { User } from './user.ts';
import type { SuiteOrder } from '../../src/shared/protocol/index.ts';

export const { sha } = aCommit;

/** A push to the branch `topic`, and the pull request that wants to merge it. */
export const push: Partial<Trigger> = {
  headBranch: 'topic',
  targetBranch: 'topic',
  fetchRef: 'refs/heads/topic',
  group: 'branch:topic',
};
export const pull: Partial<Trigger> = {
  headBranch: 'topic',
  event: 'pull_request',
  pullRequest: 7n,
  targetBranch: 'main',
  fetchRef: 'refs/pull/7/head',
  group: 'pull_request:7',
};

/** A project whose commits pushes and pull requests bring. */
export class Brought {
  readonly user: User;
  readonly project: Record_;
  readonly #service: Service;
  readonly #runner: ScriptedRunner;

  constructor(about: { service: Service; runner: ScriptedRunner; user: User; project: Record_ }) {
    this.user = about.user;
    this.project = about.project;
    this.#service = about.service;
    this.#runner = about.runner;
  }

  static async begin(
    service: Service,
    runner: ScriptedRunner,
    suites: readonly string[] = ['unit', 'lint'],
    fields: Record<string, string> = {},
  ): Promise<Brought> {
    const user: User = await service.user();
    const project = await user.createProject(fields);
    for (const name of suites) await user.createSuite(project, { name });
    return new Brought({ service, runner, user, project });
  }

  get path(): string {
    return `/projects/${this.project.id}`;
  }

  /** A suite that runs for one event alone. */
  async suiteFor(event: 'push' | 'pull_request', fields: Record<string, string>): Promise<Record_> {
    const suite = await this.user.createSuite(this.project, fields);
    const rule = { subject: 'request.event', operator: 'equals', value: event };
    const { status, text } = await this.user.post(`${this.path}/suites/${suite.id}/rules`, rule);
    assert.equal(status, 201, text);
    return suite;
  }

  async bring(about: Partial<Trigger>, commitRef = sha): Promise<bigint> {
    const { request } = await trigger(this.#service.store, this.project, commitRef, about);
    assert.ok(request);
    return request.id;
  }

  async fetched(commit: Partial<CommitReport> = {}): Promise<void> {
    const found = { branches: ['topic'], branch: 'topic', ref: 'refs/heads/topic', ...commit };
    await (await this.#runner.take('fetch_commit')).fetched(found);
  }

  /** The commit was fetched, and has this file. */
  async fetchedBy(config: { text: string; path: string; before: null }): Promise<void> {
    const commit = { ...aCommit, branches: ['topic'], branch: 'topic', ref: 'refs/heads/topic' };
    await (await this.#runner.take('fetch_commit')).finish({ kind: 'fetched', commit, config });
  }

  request(id: bigint): Promise<Record_> {
    return this.user.get(`${this.path}/build_requests/${id}`).then(({ record }) => record);
  }

  /** Its state, and the request that it joined. */
  async seen(id: bigint): Promise<[state: unknown, joined: unknown]> {
    const { build_state: state, joined_to_id: joined, joined_to_id_str: text } = await this.request(id);
    assert.equal(text, joined === null ? '' : String(joined as bigint));
    return [state, joined];
  }

  async builds(id: bigint): Promise<Record_[]> {
    return (await this.user.get(`${this.path}/build_requests/${id}/builds?limit=1000`)).list.toReversed();
  }

  /** The suites that it ran, with their attempts and states, in the order in which they were made. */
  async ran(id: bigint): Promise<string[]> {
    const all = (await this.builds(id)).toSorted((a, b) => (a.id < b.id ? -1 : 1));
    return all.map((build) => [build.suite_name, build.attempt, build.build_state].join(' '));
  }

  log(id: bigint): Promise<string> {
    return this.user.get(`${this.path}/build_requests/${id}/log.txt`).then(({ text }) => text);
  }

  /** Takes the builds that wait, by the names of their suites. */
  async take(count: number): Promise<Map<string, Task<SuiteOrder>>> {
    return new Map(await this.#takeAll(count));
  }

  async #takeAll(count: number): Promise<[name: string, task: Task<SuiteOrder>][]> {
    const tasks: [string, Task<SuiteOrder>][] = [];
    while (tasks.length < count) {
      const task = await this.#runner.take('run_suite');
      tasks.push([task.order.work.environment.HEADRACE_SUITE ?? '', task]);
    }
    await this.#runner.assertIdle();
    return tasks;
  }

  /** Runs the builds that wait; those with these names fail. */
  async run(count: number, ...failing: string[]): Promise<string[]> {
    const tasks = await this.#takeAll(count);
    for (const [name, task] of tasks) await task.exit(failing.includes(name) ? 1 : 0);
    return tasks.map(([name]) => name).toSorted();
  }
}
