import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { onEveryDatabase } from '../../support/databases.ts';
import type { Record_ } from '../../support/client.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { aCommit, ScriptedRunner, Task } from '../../support/runner.ts';
import type { Service } from '../../support/service.ts';
import { deadlocks, twoServers } from '../../support/two-servers.ts';
import type { User } from '../../support/user.ts';
import { writeListing } from '../../../src/shared/domain/ref-listings.ts';
import type { CommitReport, Order } from '../../../src/shared/protocol/index.ts';

/**
 * Everything that locks rows, from two servers at once: requests, claims, logs, outcomes, losses, retries, cancels, reruns,
 * restarts, deploys, deliveries, hooks that supersede older requests, looks at polled repositories, and a project that is
 * deleted in the middle of it. Whoever takes locks in another order
 * than the others ends in a circle here, which PostgreSQL breaks after a moment and counts.
 */
const askers = 6;
const asksEach = 4;
/** With each of these PostgreSQL once broke a circle. New ones are the business of `npm run soak`. */
const usualSeeds = [928019191, 346678572, 1219457575];
const suites = 3;
const refs = ['main', 'next', shaOf('known')];

onEveryDatabase((database) => {
  describe('a load from several servers', () => {
    const opened = new AsyncDisposableStack();
    after(() => opened.disposeAsync());

    const given = process.env.LOCKS_SEED?.split(',').map(Number);
    // A database with one writer has no circles, so one seed shows that the load comes to its end there.
    const seeds = given ?? usualSeeds.slice(0, database.kind === 'sqlite' ? 1 : undefined);
    for (const seed of seeds)
      test(`waits for nobody in a circle, and comes to its end (LOCKS_SEED=${seed})`, () => load(seed));

    async function load(seed: number): Promise<void> {
      const chance = chances(seed);
      const receiver = opened.use(await Receiver.start());
      receiver.answer = (response, received, request) =>
        reply(chance(10) === 0 ? 500 : 200)(response, received, request);

      const services = await twoServers(database);
      const stopping = new AsyncDisposableStack();
      opened.use(stopping);
      for (const service of new Set(services)) stopping.defer(() => service.stop());
      const [first, second] = services;
      if (!first || !second) throw new Error('there are two, or one twice');
      const owner = await first.user();
      const people = services.map((service) => service.signIn(owner.credentials));
      const projects: Hooked[] = [];
      for (let at = 0; at < 3; at += 1) projects.push(await aProject(owner, receiver));

      const [leaving, calming] = [new AbortController(), new AbortController()];
      const looks = new Set<Promise<void>>();
      stopping.defer(() => leaving.abort());
      const working = services.flatMap((service, at) =>
        Array.from({ length: 2 }, (_, number) =>
          work(service, `runner ${at} ${number}`, chance, {
            leaving: leaving.signal,
            calming: calming.signal,
            looks,
          }),
        ),
      );
      await ask(owner, projects[0], 'known'); // so that a SHA is known from the beginning
      const asking = Array.from({ length: askers }, async (_, asker) => {
        const person = people[asker % people.length] ?? owner;
        for (let turn = 0; turn < asksEach; turn += 1) {
          if (asker === 0 && turn === asksEach / 2) await person.delete(`/projects/${projects.pop()?.id}`);
          const service = services[asker % services.length] ?? first;
          const project = projects[chance(projects.length)];
          if (chance(4) === 0) await callHook(service, project, chance);
          else await act(person, project, chance);
        }
      });
      await Promise.all(asking);
      calming.abort(); // nothing new is asked for from now on
      await Promise.all(looks);
      for (const project of projects) await settled(owner, project);
      leaving.abort();
      await Promise.all(working);

      for (const project of projects) await assertInLine(first, owner, project);
      const ways = services.map((service) => service.config.database_url);
      await stopping.disposeAsync();
      if (database.kind === 'postgres') assert.equal(deadlocks(ways[0] ?? '').join('\n\n'), '');
    }
  });
});

/** A project with the address and the secret of its hook. */
type Hooked = Record_ & { hook: Record_ };

async function aProject(owner: User, receiver: Receiver): Promise<Hooked> {
  const project = await owner.createProject({ cancel_superseded: 'running', poll_interval: '15' });
  const hook = (await owner.post(`/projects/${project.id}/hooks`, { provider: 'generic' })).record;
  await owner.post(`/projects/${project.id}/status_targets`, {
    provider: 'gitea',
    api_url: receiver.url,
    repository: 'team/code',
    token: 'a-token-of-the-forge',
  });
  await owner.createSuite(project, { 'matrix[]': 'A=1,2', retries: '1' });
  for (let at = 1; at < suites; at += 1) await owner.createSuite(project, { retries: String(at) });
  for (let at = 0; at < 2; at += 1) await owner.createNotification(project, { 'options[url]': receiver.url });
  await owner.createStrategy(project);
  return { ...project, hook };
}

/** A push to a branch, as a script tells of it. */
async function callHook({ api }: Service, project: Hooked | undefined, chance: Chance): Promise<void> {
  const authorization = `Bearer ${String(project?.hook['secret'])}`;
  const form = { ref: `refs/heads/${chance(2) === 0 ? 'main' : 'next'}` };
  const { status, text } = await api.post(`/hooks/${project?.hook.id}`, { headers: { authorization }, form });
  assert.ok(status === 202 || status === 404, text);
}

async function ask(person: User, project: Record_ | undefined, ref: string): Promise<void> {
  const { status, text } = await person.post(`/projects/${project?.id}/build_requests`, { commit_ref: ref });
  assert.ok(status === 201 || status === 404, text);
}

/** Something that somebody does with a project. What is not possible at the moment is refused, and that is fine. */
async function act(person: User, project: Record_ | undefined, chance: Chance): Promise<void> {
  const path = `/projects/${project?.id}`;
  const newest = async (what: string): Promise<bigint | undefined> => {
    const answer = await person.get(`${path}/${what}?limit=5`);
    return answer.status === 200 ? answer.list[chance(answer.list.length || 1)]?.id : undefined;
  };
  const deeds: (() => Promise<{ status: number; text: string } | undefined>)[] = [
    async () => person.post(`${path}/build_requests/${await newest('build_requests')}/cancel`),
    async () => person.post(`${path}/build_requests/${await newest('build_requests')}/rerun`),
    async () => {
      const commit = await newest('commits');
      const build = commit === undefined ? undefined : await newest(`commits/${commit}/builds`);
      return build === undefined
        ? undefined
        : person.post(`${path}/builds/${build}/${chance(2) === 0 ? 'restart' : 'cancel'}`);
    },
    async () => {
      const strategy = await newest('deploy_strategies');
      return person.post(`${path}/deploys`, { deploy_strategy_id: String(strategy) });
    },
    async () => {
      const notification = await newest('notifications');
      if (notification === undefined) return undefined;
      const delivery = await newest(`notifications/${notification}/deliveries`);
      return person.post(`${path}/notifications/${notification}/deliveries/${delivery}/redeliver`);
    },
  ];
  const deed = deeds[chance(deeds.length * 2)];
  if (!deed) return ask(person, project, refs[chance(refs.length)] ?? 'main');
  const answer = await deed();
  assert.ok(!answer || answer.status < 500 || answer.status === 503, answer?.text);
}

/** A runner that takes what comes and does with it what chance says. */
async function work(
  service: Service,
  name: string,
  chance: Chance,
  { leaving, calming, looks }: { leaving: AbortSignal; calming: AbortSignal; looks: Set<Promise<void>> },
): Promise<void> {
  const scripted = await ScriptedRunner.start(service.store);
  const runner = scripted.beside(name);
  while (!leaving.aborted) {
    const order = await runner.dispatch.next(runner.self, { claim: randomUUID() }, leaving);
    if (order) await perform(runner, order, chance);
    if (!calming.aborted && chance(3) === 0) {
      const looking = passInterval(service).then(() => look(runner, chance));
      looks.add(looking);
      await looking;
    }
  }
  await scripted.dispatch.close();
}

async function perform(runner: ScriptedRunner, order: Order, chance: Chance): Promise<void> {
  const task = new Task(runner, order);
  const said = Buffer.from('a line\n');
  const receipt = await task.send(order.logOffset, said);
  if (!('taken' in receipt)) return; // what it was about is gone
  await runner.dispatch.extend(runner.self, { claims: [order.claim] }, AbortSignal.abort());
  const { work: asked } = order;
  const size = order.logOffset + said.length;
  if (chance(12) === 0) await task.finishAt(size, { kind: 'lost', message: 'on purpose' });
  else if (asked.kind === 'run_suite') await task.finishAt(size, { kind: 'exited', status: chance(2) });
  else if (asked.kind === 'push_deploy') await task.finishAt(size, { kind: 'pushed' });
  else if (asked.kind === 'fetch_commit') {
    const { commitRef, fetchRef = '' } = asked;
    const ref = (fetchRef || commitRef).replace('refs/heads/', '');
    const names = { branches: [ref], branch: ref, ref: `refs/heads/${ref}` };
    const sha = fetchRef === '' ? shaOf(ref) : commitRef;
    const commit: CommitReport = { ...aCommit, ...names, sha, defaultHead: 'kept' };
    await task.finishAt(size, { kind: 'fetched', commit });
  }
}

/** A repository is due again, as it is after its interval. */
async function passInterval({ store: { db } }: Service): Promise<void> {
  const polls = db.read.selectFrom('polls').select('project_id').where('claim', 'is', null);
  const poll = await polls.orderBy('next_poll_at').executeTakeFirst();
  const due = { next_poll_at: BigInt(Date.now()) };
  if (poll)
    await db.transaction((trx) =>
      trx.updateTable('polls').set(due).where('project_id', '=', poll.project_id).execute(),
    );
}

/** Looks at the repositories that are due, and finds that a branch has moved, or nothing, or nobody there. */
async function look({ dispatch, self }: ScriptedRunner, chance: Chance): Promise<void> {
  const orders = await dispatch.polls(self, { room: 8 }, AbortSignal.abort());
  const reports = orders.map(({ claim, source: { projectId } }) => {
    const branches = ['one', 'two', 'three'].map((name) => [`refs/heads/${name}`, shaOf(String(chance(5)))] as const);
    const listing = writeListing(new Map(branches));
    const seen = chance(3) === 0 ? { failed: 'unreachable', message: 'on purpose' } : { listing };
    return { projectId, claim, seen };
  });
  await dispatch.polled(self, { reports });
}

const over = new Set(['passed', 'failed', 'errored', 'cancelled']);

async function settled(owner: User, { id }: Record_): Promise<void> {
  for (;;) {
    const requests = (await owner.get(`/projects/${id}/build_requests?limit=1000`)).list;
    const deploys = (await owner.get(`/projects/${id}/deploys?limit=1000`)).list;
    const open = requests.filter(({ build_state: state }) => !over.has(String(state)));
    const waiting = deploys.filter(({ deploy_state: state }) => state === 'enqueued' || state === 'deploying');
    if (open.length + waiting.length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 250)); // each look costs as much as many builds
  }
}

/** Nothing was lost on the way: events stand one behind the other, and every roll-up is that of its builds. */
async function assertInLine({ store }: Service, owner: User, { id }: Record_): Promise<void> {
  const events = await store.db.read.selectFrom('events').selectAll().where('project_id', '=', id).execute();
  const sequences = events.map(({ sequence }) => Number(sequence)).toSorted((a, b) => a - b);
  assert.deepEqual(
    sequences,
    sequences.map((_, at) => at + 1),
  );
  const commits = (await owner.get(`/projects/${id}/commits`)).list;
  for (const commit of commits)
    assert.ok(over.has(String(commit.build_state)), `a commit stays ${String(commit.build_state)}`);
  const { build_state: state } = (await owner.get(`/projects/${id}`)).record;
  assert.equal(state, commits[0]?.build_state ?? 'new');
}

type Chance = (below: number) => number;

/** The same seed makes the same choices; what they meet is up to the machine. */
function chances(seed: number): Chance {
  let count = 0;
  return (below) => {
    count += 1;
    return createHash('sha256').update(`${seed} ${count}`).digest().readUInt32LE() % below;
  };
}

function shaOf(ref: string): string {
  return createHash('sha1').update(ref).digest('hex');
}
