import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { deliver, sign, type Sent } from '../server/inbound-hooks/forge.ts';
import { bitbucket, center, github, gitlab, type Comment } from '../server/inbound-hooks/payloads.ts';
import type { Record_ } from './client.ts';
import { FakeForge, type Dialect, type FakeRepository } from './fake-forge.ts';
import type { FakePull } from './fake-pulls.ts';
import { Brought, pull, sha } from './joined.ts';
import { longestWait } from './pauses.ts';
import { publicly } from './public-forge.ts';
import type { ScriptedRunner } from './runner.ts';
import type { Service } from './service.ts';

const signed: Record<Dialect, (secret: string, comment: Comment) => Sent> = {
  github: (secret, comment) => sign.github(secret, 'issue_comment', github.comment(comment)),
  gitea: (secret, comment) => sign.gitea(secret, 'issue_comment', github.comment(comment)),
  gitlab: (secret, comment) => sign.gitlab(secret, 'Note Hook', gitlab.note(comment)),
  cloud: (secret, comment) => sign.bitbucket(secret, 'pullrequest:comment_created', bitbucket.comment(comment)),
  center: (secret, comment) => sign.bitbucket(secret, 'pr:comment:added', center.comment(comment)),
};

/** Accounts at the forge. `grace` may push, `rita` may read, and nobody knows `mallory`. */
const people = { grace: 8, rita: 9, mallory: 10 };

/** A project that is connected to a fake forge, with the pull request 7. */
export class AtPull extends Brought {
  readonly forge: FakeForge;
  readonly #service: Service;

  private constructor(about: ConstructorParameters<typeof Brought>[0], forge: FakeForge) {
    super(about);
    this.forge = forge;
    this.#service = about.service;
  }

  static async at(
    t: TestContext,
    [service, runner]: [Service, ScriptedRunner],
    dialect: Dialect,
    suites: string[] = ['unit'],
    fields: Record<string, string> = {},
    appToken = '',
  ): Promise<AtPull> {
    const forge = await FakeForge.start(dialect);
    if (appToken !== '') Object.assign(forge, { isApp: true, token: appToken });
    t.after(() => forge[Symbol.asyncDispose]());
    for (const [login, id] of Object.entries(people)) forge.accounts.set(login, id);
    forge.add('team/code', {
      ssh: 'git@example.org:team/code.git',
      https: 'https://example.org/team/code.git',
      private: false,
      members: { ada: 'admin', grace: 'write', rita: 'read' },
    });
    const user = await service.user();
    const made = await user.post('/forges', dialect === 'cloud' ? publicly(t, forge) : forge.fields);
    assert.equal(made.status, 201, made.text);
    const wanted = { forge_id: made.record.id, repository: 'team/code', ...fields };
    const { record: project, status, text } = await user.post('/projects', wanted);
    assert.equal(status, 201, text);
    for (const name of suites) await user.createSuite(project, { name });
    const own = new AtPull({ service, runner, user, project }, forge);
    own.repository.pulls.set(7, { head: sha, comments: [] });
    return own;
  }

  get repository(): FakeRepository {
    return this.forge.of('team/code');
  }

  get pull(): FakePull {
    return this.repository.pulls.get(7) ?? assert.fail('there is a pull request 7');
  }

  get texts(): string[] {
    return this.pull.comments.filter(({ author }) => author === 'ada').map(({ text }) => text);
  }

  /** Somebody writes a comment, and the forge calls the hook. */
  async comment(text: string, author = 'grace', more: Partial<Comment> = {}): Promise<Record_> {
    const { id } = await this.write(text, author);
    return this.send({ text, id, author, authorId: this.forge.accounts.get(author) ?? 0, ...more });
  }

  async write(text: string, author: string): Promise<{ id: number }> {
    const id = 10_000 + this.pull.comments.length;
    this.pull.comments.push({ id, author, text, at: Date.now(), version: 0, reactions: [] });
    return { id };
  }

  async send(comment: Comment): Promise<Record_> {
    const [hook] = this.repository.hooks;
    assert.ok(hook);
    const sent = signed[this.forge.dialect](hook.secret, comment);
    const answer = await deliver(this.#service.api, { id: BigInt(hook.url.split('/').at(-1) ?? '') }, sent);
    assert.equal(answer.status, 202, answer.text);
    return answer.record;
  }

  reactionsTo(text: string): string[] {
    return this.pull.comments.find((one) => one.text === text)?.reactions ?? [];
  }

  /** What the forge was told at pull requests, oldest first, once nothing waits. */
  async told(): Promise<Record_[]> {
    const [target] = (await this.user.get(`${this.path}/status_targets`)).list;
    for (const began = Date.now(); ; await pause(10)) {
      const { list: all, text } = await this.user.get(
        `${this.path}/status_targets/${target?.id}/deliveries?limit=1000`,
      );
      if (all.every(({ state }) => state !== 'pending'))
        return all.filter(({ type }) => /^(comment|pull_request)\./.test(String(type))).toReversed();
      assert.ok(Date.now() - began < longestWait, text);
    }
  }

  /** The error of each command and answer: what came of it. */
  async errors(): Promise<string[]> {
    const all = await this.told();
    return all.map(({ attempts }) => (attempts as { error: string }[]).at(-1)?.error ?? 'never tried');
  }

  /** Brings the pull request, and ends each of its builds with a status. */
  async built(status: number, builds = 1): Promise<bigint> {
    const id = await this.bring(pull);
    await this.fetched();
    for (const task of (await this.take(builds)).values()) await task.exit(status);
    return id;
  }
}
