import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { version, type Link, type Outcome } from '../../../src/shared/protocol/index.ts';
import type { Credentials, Fields, Record_ } from '../../support/client.ts';
import { onEveryDatabase, placeFor } from '../../support/databases.ts';
import { assertFields, assertRecent, assertRefused } from '../../support/expect.ts';
import { lacks } from '../../support/machine.ts';
import { serve } from '../../support/program.ts';
import { linkWith, registered } from '../../support/registered.ts';
import { addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import { Tab } from '../../support/tab.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const patient = new AbortController().signal;
const nobody = 'no runner is connected';
const turn = 'waits for its turn';

interface Health {
  status: string;
  runner: { state: string; connected: number; reason?: string };
  queue: { waiting: number; running: number; oldest_seconds: number };
}

describeService('work that nobody can take', (service) => {
  let operator: User;
  let alice: User;
  let project: Record_;
  let request: string;
  before(async () => {
    operator = await service.user();
    alice = await service.user();
    project = await alice.createProject();
    request = `/projects/${project.id}/build_requests/${(await alice.requestBuild(project)).id}`;
  });
  const reasonOf = async (path: string): Promise<unknown> => (await alice.get(path)).record.waiting_reason;
  const health = async (): Promise<Health> => {
    await pause(1001); // it looks once a second
    return (await service.api.get('/healthz')).body as unknown as Health;
  };
  /** As if it had not come for a while. The name is another, so that the server it is connected to cannot note it. */
  const leave = async (name: string): Promise<void> => {
    const past = sql`update runner_heartbeats set seen_at = seen_at - 60000, holder = holder || ' left'
      where holder like ${`% ${name} %`}`;
    await service.store.db.transaction((trx) => past.execute(trx));
  };
  const runners = async (): Promise<Fields[]> => (await operator.get('/runners')).list;

  test('says so, as do the list, the start page, /healthz and /metrics', async () => {
    assert.equal(await reasonOf(request), nobody);
    const [listed] = (await alice.get(`/projects/${project.id}/build_requests`)).list;
    assert.equal(listed?.waiting_reason, nobody);
    const dependency = await alice.createDependency();
    await alice.upload(dependency, await archiveOf({ hello: 'hello\n' }));
    assert.equal(await reasonOf(`/dependencies/${dependency.id}`), nobody);
    await alice.createDependency();
    const dependencies = (await alice.get('/dependencies')).list;
    assert.deepEqual(
      dependencies.map((one) => one.waiting_reason),
      [nobody, undefined],
      'what is not uploaded waits for nobody',
    );

    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    assert.match((await tab.get('/ui/')).text, /Builds wait: no runner is connected\./);

    const { status, runner, queue } = await health();
    assert.deepEqual([status, runner], ['ok', { state: 'none', connected: 0, reason: nobody }]);
    assert.deepEqual([queue.waiting, queue.running], [2, 0]);
    assert.ok(queue.oldest_seconds >= 1);
    const { text } = await service.api.get('/metrics');
    assert.match(text, /^headrace_queue_waiting 2$/m);
    assert.match(text, /^headrace_queue_oldest_seconds [1-9]/m);
    assert.match(text, /^headrace_queue_running\{kind="run_suite"\} 0$/m);
    assert.match(text, /^headrace_runners\{state="idle"\} 0$/m);
    assert.deepEqual(await runners(), []);
  });

  test('goes without a word when somebody is there, and says so again when they are away', async () => {
    const far = await registered(service);
    const order = await far.link.next({ claim: randomName() }, patient);
    assert.ok(order);
    assert.equal(await reasonOf(request), '');
    const [seen] = (await runners()).filter(({ name }) => name === far.name);
    assert.ok(seen);
    assertFields(seen, 'name kind state draining trouble version last_seen_at accounts tags slots busy_slots work');
    assertRecent(seen.last_seen_at);
    const { id } = (await alice.get(request)).record;
    const [work] = seen.work as Fields[];
    assert.deepEqual([seen.kind, seen.state, seen.version, seen.accounts], ['remote', 'busy', version, []]);
    const named = { name: 'main', project_name: project.name, started_at: null };
    assert.deepEqual(work, { kind: 'fetch_commit', id, id_str: String(id), account: alice.email, ...named });
    assert.equal(seen.busy_slots, 0);
    assert.match((await service.api.get('/metrics')).text, /^headrace_runners\{state="busy"\} \d$/m);
    const { runner, queue } = await health();
    assert.deepEqual([runner, queue.running], [{ state: 'connected', connected: 1 }, 1]);

    const other = `/projects/${project.id}/build_requests/${(await alice.requestBuild(project)).id}`;
    assert.equal(await reasonOf(other), turn);
    await leave(far.name);
    assert.equal(await reasonOf(other), nobody);
    assert.equal(await reasonOf(request), '', 'this one was taken');
    assert.equal((await runners()).find(({ name }) => name === far.name)?.state, 'away');
    far.link.close();
  });

  test('says so where those who are there work for others', async () => {
    const bob = await service.user();
    const bound = await registered(service, [bob]);
    await bound.link.access({ claim: randomName() }, patient);
    const waiting = `/projects/${project.id}/build_requests/${(await alice.requestBuild(project)).id}`;
    assert.equal(await reasonOf(waiting), 'no connected runner works for this account');
    const own = await bob.createProject();
    const theirs = (await bob.requestBuild(own)).id;
    assert.equal((await bob.get(`/projects/${own.id}/build_requests/${theirs}`)).record.waiting_reason, turn);
    bound.link.close();
    await leave(bound.name);
  });

  /** A build of a suite that needs these tags, and of nothing else. */
  const waitingBuild = async (owner: User, tags: string[], more: Record<string, string> = {}) => {
    const own = await owner.createProject();
    const suites = `/projects/${own.id}/suites`;
    const suite = (await owner.post(suites, { name: 'tagged', command: 'true', 'tags[]': tags.join(' '), ...more }))
      .record;
    const { ref } = await addCommit(service.store, own);
    const asked = (await owner.post(`/projects/${own.id}/build_requests`, { commit_ref: ref })).record;
    const { commit_id: commit } = (await owner.get(`/projects/${own.id}/build_requests/${asked.id}`)).record;
    const [build] = (await owner.get(`/projects/${own.id}/commits/${String(commit)}/builds`)).list;
    return {
      suite: `${suites}/${suite.id}`,
      build: `/projects/${own.id}/builds/${build?.id}`,
      request: `/projects/${own.id}/build_requests/${asked.id}`,
    };
  };
  const nothingFor = async (link: Link): Promise<void> =>
    assert.equal(await link.next({ claim: randomName(), holdMs: 1500 }, patient), undefined);

  test('says which tags are missing, until a runner comes that has them', async () => {
    const carol = await service.user();
    const far = await registered(service, [carol]);
    const { suite, build: first, request: asked } = await waitingBuild(carol, ['gpu', 'arm', 'gpu']);
    let build = first;
    assert.deepEqual((await carol.get(suite)).record.tags, ['arm', 'gpu']);
    const reason = async (path?: string): Promise<unknown> => (await carol.get(path ?? build)).record.waiting_reason;
    const missing = (tags: string): string => `no runner has the tags ${tags}`;
    await nothingFor(far.link);
    assert.equal(await reason(), missing('arm, gpu'));
    assert.equal(await reason(asked), missing('arm, gpu'));
    // Whoever asks for something is told at once.
    const told = async (path: string): Promise<unknown> => (await carol.post(path)).record.waiting_reason;
    assert.equal(await told(`${asked}/cancel`), '');
    assert.equal(await told(`${asked}/rerun`), missing('arm, gpu'));
    const [again] = (await carol.get(build.replace(/\/\d+$/, ''))).list;
    build = build.replace(/\d+$/, String(again?.id));
    assert.equal(await told(`${build}/cancel`), '');
    const next = (await carol.post(`${build}/restart`)).record;
    assert.equal(next.waiting_reason, missing('arm, gpu'));
    build = build.replace(/\d+$/, String(next.id));
    assert.equal((await health()).runner.reason, 'some queued jobs need tags that no connected runner has');

    const half = linkWith(service, far.token, { tags: 'arm' });
    await nothingFor(half);
    assert.equal(await reason(), missing('arm, gpu'));
    assert.equal((await carol.put(suite, { name: 'renamed', 'tags[]': 'gpu' })).status, 200);
    assert.equal(await reason(), missing('gpu'), 'what waits follows its suite');

    const whole = linkWith(service, far.token, { tags: 'gpu,ssd' });
    const order = await whole.next({ claim: randomName() }, patient);
    assert.equal(order?.work.kind, 'run_suite');
    assert.equal(await reason(), '');
    assert.deepEqual((await runners()).find(({ name }) => name === far.name)?.tags, ['gpu', 'ssd']);
    for (const link of [far.link, half, whole]) link.close();
    await leave(far.name);
  });

  test('says how many slots are busy, and fetches wait for none of them', async () => {
    const erin = await service.user();
    const far = await registered(service, [erin]);
    const link = linkWith(service, far.token, { slots: 2 });
    const own = await erin.createProject({ fork_builds: 'approval' });
    const at = `/projects/${own.id}`;
    for (const name of ['one', 'two', 'three']) await erin.createSuite(own, { name });
    const { ref } = await addCommit(service.store, own);
    const ask = async (commit: string): Promise<string> =>
      `${at}/build_requests/${(await erin.post(`${at}/build_requests`, { commit_ref: commit })).record.id}`;
    const reasonAt = async (path: string): Promise<unknown> => (await erin.get(path)).record.waiting_reason;
    const take = async (slot: 'builds' | 'fetches') => {
      const order = await link.next({ claim: randomName(), slot }, patient);
      assert.ok(order);
      return order;
    };
    const first = await ask(ref);
    const running = [await take('builds'), await take('builds')];
    const reasons = async (): Promise<unknown[]> =>
      (await erin.get(`${at}/builds`)).list.map((build) => String(build.waiting_reason)).toSorted();
    assert.deepEqual(await reasons(), ['', '', '2 of 2 slots are busy']);
    assert.equal(await reasonAt(first), '', 'a part of it runs');
    const second = await ask(ref);
    assert.equal(await reasonAt(second), '2 of 2 slots are busy');
    const listed = (await erin.get(`${at}/build_requests`)).list.map(({ waiting_reason: reason }) => reason);
    assert.deepEqual(listed, ['2 of 2 slots are busy', '']);
    const waiting = (await erin.get(`${at}/builds`)).list.find(({ waiting_reason: reason }) => reason !== '');
    assert.equal(await reasonAt(`${at}/builds/${waiting?.id}`), '2 of 2 slots are busy');
    const tab = new Tab(service);
    await tab.signIn(erin.credentials);
    for (const page of [second.replace('build_requests', 'requests'), `${at}/builds/${waiting?.id}`])
      assert.match((await tab.get(`/ui${page}`)).text, /2 of 2 slots are busy\./);

    // The same runner fetches meanwhile, before builds that are older.
    const fetches = [await ask('main'), await ask('other'), await ask('third')];
    assert.equal(await reasonAt(fetches[0] ?? ''), turn);
    const fetching = [await take('fetches'), await take('fetches')];
    for (const { work } of fetching) assert.equal(work.kind, 'fetch_commit');
    assert.equal(await reasonAt(fetches[0] ?? ''), '');
    assert.equal(await reasonAt(fetches[2] ?? ''), '2 of 2 slots for fetches are busy');

    const finish = async (claim: string, slot: 'builds' | 'fetches', outcome: Outcome) => {
      await link.finish({ claim, outcome, logSize: 0 }, patient);
      return (await take(slot)).work.kind;
    };
    const [build, fetch] = [running[0]?.claim ?? '', fetching[0]?.claim ?? ''];
    assert.equal(await finish(build, 'builds', { kind: 'exited', status: 0 }), 'run_suite');
    const unfetchable = { kind: 'unfetchable', reason: 'x' } as const;
    assert.equal(await finish(fetch, 'fetches', unfetchable), 'fetch_commit');

    const held = await trigger(service.store, own, 'f'.repeat(40), fromFork);
    assert.equal(await reasonAt(`${at}/build_requests/${held.request?.id}`), 'waits for approval');
    for (const one of [far.link, link]) one.close();
    await leave(far.name);
  });

  test('is no way around the accounts of a runner', async () => {
    const carol = await service.user();
    const bound = await registered(service, [await service.user()]);
    const { build } = await waitingBuild(carol, ['gpu']);
    const tagged = linkWith(service, bound.token, { tags: 'gpu' });
    await nothingFor(tagged);
    const { waiting_reason: reason } = (await carol.get(build)).record;
    assert.equal(reason, 'no connected runner works for this account');
    const tooMany = Array.from({ length: 17 }, (_, at) => `t${at}`).join(',');
    for (const tags of ['gpu,', 'g pu', '-gpu', 'gpu;id', '$(id)', 'x'.repeat(65), tooMany]) {
      const odd = linkWith(service, bound.token, { tags });
      await assert.rejects(odd.next({ claim: randomName() }, patient), /headrace-tags/, tags);
      odd.close();
    }
    for (const link of [bound.link, tagged]) link.close();
    await leave(bound.name);
  });

  test('is for its owners to see; who the runners are, for operators alone', async () => {
    assertRefused(await alice.get('/runners'), 401, { generic: ['unauthorized'] });
    assert.doesNotMatch((await service.api.get('/healthz')).text, /example\.org/);
  });
});

describe('a runner that cannot start', () => {
  onEveryDatabase((database) => {
    test(
      'is told of by /healthz, requests and the list of runners, until it can',
      { timeout: longestWait, skip: lacks('isolated runner') },
      async () => {
        const { folder, env } = await placeFor(database);
        writeFileSync(join(folder, 'runner'), 'a file where its folder is to be');
        const server = await serve(database, folder, env, { runner: true });
        const as: Credentials = { email: 'admin@localhost', api_key: /API key\s+(\S+)/.exec(server.output)?.[1] ?? '' };
        const state = async (): Promise<Health['runner']> =>
          ((await server.api.get('/healthz')).body as unknown as Health).runner;
        const until = async (holds: (runner: Health['runner']) => boolean): Promise<Health['runner']> => {
          for (;;) {
            const seen = await state();
            if (holds(seen)) return seen;
            await pause(100);
          }
        };
        const failing = await until(({ reason }) => /one is failing/.test(reason ?? ''));
        assert.deepEqual([failing.state, failing.connected], ['none', 0]);
        const project = (await server.api.post('/projects', { as, form: { name: 'a', repository_url: 'a@b:c' } }))
          .record;
        const requests = `/projects/${project.id}/build_requests`;
        const { id } = (await server.api.post(requests, { as, form: { commit_ref: 'main' } })).record;
        const reason = async (): Promise<unknown> =>
          (await server.api.get(`${requests}/${id}`, { as })).record.waiting_reason;
        assert.match(String(await reason()), /^no working runner is connected: one is failing/);
        const [local] = (await server.api.get('/runners', { as })).list;
        assert.deepEqual([local?.kind, local?.state], ['local', 'failing']);
        assert.match(String(local?.trouble), /EEXIST/);
        assert.match((await server.api.get('/metrics')).text, /^headrace_runners\{state="failing"\} 1$/m);
        rmSync(join(folder, 'runner'));
        await until(({ state: now }) => now === 'connected');
        assert.doesNotMatch(String(await reason()), /no (working )?runner/);
        server.api.close();
        server.process.kill('SIGTERM');
        await server.exited;
      },
    );
  });
});
