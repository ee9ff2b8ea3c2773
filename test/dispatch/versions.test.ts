import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { randomName } from '../../src/lib/random-name.ts';
import { understandEachOther, version } from '../../src/protocol/index.ts';
import { RefusedError } from '../../src/runner/failures.ts';
import { openLink } from '../../src/runner/link.ts';
import type { Fields } from '../support/client.ts';
import { registered, type Registered } from '../support/registered.ts';
import { describeService } from '../support/service.ts';
import type { User } from '../support/user.ts';

const patient = new AbortController().signal;
const [major = 0, minor = 0] = version.split('.').map(Number);
const oneAhead = `${major}.${minor + 1}.7`;
const twoAhead = `${major}.${minor + 2}.0`;

describe('versions', () => {
  test('understand each other when they are at most one minor version apart', () => {
    const apart = (one: string, other: string): boolean[] => [
      understandEachOther(one, other),
      understandEachOther(other, one),
    ];
    for (const pair of ['1.4.0 1.4.9', '1.4.0 1.5.0', '0.9.0 0.10.0', '1.4.0-rc.1 1.5.0'])
      assert.deepEqual(apart(...(pair.split(' ') as [string, string])), [true, true], pair);
    for (const pair of [
      '1.4.0 1.6.0',
      '1.4.0 2.4.0',
      '1.4.0 2.0.0',
      '1.4.0 x',
      '1.4.0 1',
      `1.4.0 1.${'9'.repeat(99)}.0`,
    ])
      assert.deepEqual(apart(...(pair.split(' ') as [string, string])), [false, false], pair);
  });
});

/** What a runner of version 0.1 tells of a commit. */
const commit = {
  sha: 'd'.repeat(40),
  message: 'Begin\n',
  authorName: 'Ada',
  authorEmail: 'ada@example.org',
  authoredDate: '2026-03-01T10:00:00-05:00',
  committerName: 'Grace',
  committerEmail: 'grace@example.org',
  committedDate: '2026-03-02T11:30:00+05:30',
  branches: ['main'],
  tags: [],
  files: ['a.c'],
  ref: 'refs/heads/main',
  branch: 'main',
  overwritten: false,
};

function kindOf(order: unknown): string {
  return (order as { work: { kind: string } }).work.kind;
}

describeService('a runner of another version', (service) => {
  let operator: User;
  let alice: User;
  before(async () => {
    operator = await service.user();
    alice = await service.user();
  });
  const linkOf = ({ token }: Registered, as: string): ReturnType<typeof openLink> => {
    const ca = readFileSync(join(service.folder, 'tls', 'cert.pem'), 'utf8');
    return openLink({ url: service.address, token, ca }, as);
  };
  const shown = async ({ name }: Registered): Promise<Fields | undefined> =>
    (await operator.get('/runners')).list.find((one) => one.name === name);

  // First of all: runners of other tests count as present for a while.
  test('that does not know images, artifacts, reports or forks gets no work that has them, and others do [promise: fork-sources]', async () => {
    const { token } = await registered(service);
    const old = async (path: string, json: unknown): Promise<Fields> => {
      const answer = await service.api.post(path, { json, headers: { authorization: `Bearer ${token}` } });
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    };
    const project = await alice.createProject();
    const at = `/projects/${project.id}`;
    const fields = { image: 'alpine:3', 'artifacts[]': 'dist', 'reports[]': 'report.xml' };
    for (const [name, value] of Object.entries(fields)) await alice.createSuite(project, { name, [name]: value });
    await alice.createSuite(project, { name: 'plain' });
    const request = await alice.requestBuild(project);
    const fetching = randomName();
    assert.equal(kindOf((await old('/runner/next', { claim: fetching })).order), 'fetch_commit');
    const fetched = {
      claim: fetching,
      outcome: { kind: 'fetched', commit: { ...commit, sha: 'c'.repeat(40) } },
      logSize: 0,
      next: randomName(),
    };
    const { next } = await old('/runner/finish', fetched);
    const { work, claim } = next as { claim: string; work: { kind: string; environment: Fields } };
    assert.equal(work.environment.HEADRACE_SUITE, 'plain');
    await old('/runner/finish', { claim, outcome: { kind: 'exited', status: 0 }, logSize: 0 });
    // Nothing is left that it may have, and whoever looks is told.
    assert.deepEqual(await old('/runner/next', { claim: randomName(), holdMs: 0 }), { order: null });
    const waiting = (await alice.get(`${at}/build_requests/${request.id}`)).record;
    assert.match(String(waiting.waiting_reason), /older version, which knows neither images nor artifacts/);
    const link = linkOf(await registered(service), version);
    const seen: string[] = [];
    for (const _ of Object.keys(fields)) {
      const order = await link.next(randomName(), patient);
      assert.ok(order?.work.kind === 'run_suite');
      seen.push(order.work.environment.HEADRACE_SUITE ?? '');
      assert.equal((await alice.get(`${at}/build_requests/${request.id}`)).record.waiting_reason, '');
      await link.finish({ claim: order.claim, outcome: { kind: 'exited', status: 0 }, logSize: 0 }, patient);
    }
    assert.deepEqual(seen, Object.keys(fields));
    assert.equal((await alice.get(`${at}/build_requests/${request.id}`)).record.build_state, 'passed');
    // A fork's commit, in a suite that has nothing new.
    for (const name of Object.keys(fields)) {
      const suite = (await alice.get(`${at}/suites`)).list.find((one) => one.name === name);
      await alice.delete(`${at}/suites/${suite?.id}`);
    }
    await alice.requestBuild(project, 'refs/pull/7/head');
    const foreign = { ...commit, sha: 'f'.repeat(40), branches: [], tags: [], branch: null, ref: 'refs/pull/7/head' };
    const proposed = randomName();
    assert.equal(kindOf((await old('/runner/next', { claim: proposed })).order), 'fetch_commit');
    const outcome = { kind: 'fetched', commit: foreign };
    const after = await old('/runner/finish', { claim: proposed, outcome, logSize: 0, next: randomName() });
    assert.deepEqual(after.next ?? null, null);
    const order = await link.next(randomName(), patient);
    assert.ok(order?.work.kind === 'run_suite' && order.work.isFork);
    await link.finish({ claim: order.claim, outcome: { kind: 'exited', status: 0 }, logSize: 0 }, patient);
    link.close();
  });

  test('works when it is one minor version apart', async () => {
    const far = await registered(service);
    const link = linkOf(far, oneAhead);
    const project = await alice.createProject();
    await alice.requestBuild(project);
    const order = await link.next(randomName(), patient);
    assert.equal(order?.work.kind, 'fetch_commit');
    await link.finish({ claim: order.claim, outcome: { kind: 'unfetchable', reason: 'x' }, logSize: 0 }, patient);
    assert.equal((await shown(far))?.version, oneAhead);
    link.close();
  });

  test('ends and says both versions when it is not, and operators see it', async () => {
    const far = await registered(service);
    const link = linkOf(far, twoAhead);
    const both = (error: Error): boolean =>
      error instanceof RefusedError && error.message.includes(version) && error.message.includes(twoAhead);
    await assert.rejects(link.next(randomName(), patient), both);
    const seen = await shown(far);
    assert.equal(seen?.state, 'failing');
    assert.ok(String(seen?.trouble).includes(`it is headrace ${twoAhead} and this server ${version}`));
    link.close();
    // With the right version it is well again.
    const again = linkOf(far, version);
    await again.key(randomName(), patient);
    assert.deepEqual([(await shown(far))?.state, (await shown(far))?.trouble], ['idle', '']);
    again.close();
  });

  /*
   * What a runner of version 0.1 sends, word for word. It names no version. As long as 0.1 is at most one minor version
   * behind, all of it has to be understood: what later versions added to these messages may be missing.
   */
  const oldest = { skip: !understandEachOther(version, '0.1.0') };
  test('of 0.1 is understood in everything it says', oldest, async () => {
    const { token } = await registered(service);
    const say = async (path: string, json: unknown): Promise<Fields> => {
      const answer = await service.api.post(path, { json, headers: { authorization: `Bearer ${token}` } });
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    };
    const log = async (claim: string, text: string): Promise<void> => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/octet-stream' };
      const where = { 'headrace-claim': claim, 'headrace-offset': '0' };
      const answer = await service.api.post('/runner/log', { body: text, headers: { ...headers, ...where } });
      assert.deepEqual(answer.body, { taken: true });
    };
    const project = await alice.createProject();
    await alice.createSuite(project);
    const request = await alice.requestBuild(project);

    const fetching = randomName();
    const { order } = await say('/runner/next', { claim: fetching });
    assert.equal(kindOf(order), 'fetch_commit');
    assert.deepEqual(await say('/runner/extend', { claims: [] }), { words: {} });
    await log(fetching, 'Looking.\n');
    const running = randomName();
    const fetched = { claim: fetching, outcome: { kind: 'fetched', commit }, logSize: 9, next: running };
    const { taken, next } = await say('/runner/finish', fetched);
    assert.deepEqual([taken, kindOf(next)], [true, 'run_suite']);
    const { privateKey } = await say('/runner/key', { claim: running });
    assert.ok(typeof privateKey === 'string' && privateKey.includes('PRIVATE KEY'));
    await say('/runner/finish', { claim: running, outcome: { kind: 'exited', status: 0 }, logSize: 0 });
    const { build_state: state } = (await alice.get(`/projects/${project.id}/build_requests/${request.id}`)).record;
    assert.equal(state, 'passed');
  });
});
