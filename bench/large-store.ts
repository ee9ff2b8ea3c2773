import { randomName } from '../src/shared/lib/random-name.ts';
import { untilAnswered } from '../src/runner/retry.ts';
import type { DatabaseName, Databases } from './support/databases.ts';
import { buildsWith, makeHistory, suitesEach } from './support/history.ts';
import { median, round, type Figure } from './support/report.ts';
import { openRunner, type ScriptedRunner } from './support/runners.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';
import { signIn } from './support/signing-in.ts';

/** Also in the small store, every list of a project is full. */
const commitsEach = { small: 100, large: 5000 };
const rounds = 60;

/** The most frequent requests of users and runners, with a million stored builds over a few thousand. */
export async function largeStoreFigures(databases: Databases): Promise<Figure[]> {
  return [...(await figuresOn(databases, 'SQLite')), ...(await figuresOn(databases, 'PostgreSQL'))];
}

export async function figuresOn(databases: Databases, name: DatabaseName): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const open = async (commits: number): Promise<Store> => {
    const service = await startHeadrace(undefined, await databases.settingsFor(name), { flags: ['--no-runner'] });
    stack.defer(() => service.stop());
    await makeHistory(service, commits);
    const store = await openStore(service);
    stack.defer(() => store.runner.close());
    return store;
  };
  return await measure(name, await open(commitsEach.small), await open(commitsEach.large));
}

interface Store {
  service: Service;
  runner: ScriptedRunner;
  cookie: string;
  /** The address of a project, and a commit of it. */
  path: string;
  commit: { id_str: string; ref: string };
}

async function openStore(service: Service): Promise<Store> {
  const [project] = await call<{ id_str: string }[]>(service, '/projects?limit=1');
  const path = `/projects/${project?.id_str}`;
  const [commit] = await call<Store['commit'][]>(service, `${path}/commits?limit=1`);
  if (!commit) throw new Error('there is no commit');
  return { service, path, commit, runner: await openRunner(service), cookie: await signIn(service) };
}

type Taken = Map<string, number[]>;

/** One round: a commit is rebuilt, and the changed pages and records are read. */
async function visit({ service, runner, cookie, path, commit }: Store, taken: Taken): Promise<void> {
  const timed = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    const result = await work();
    taken.set(what, [...(taken.get(what) ?? []), performance.now() - startedAt]);
    return result;
  };
  const { signal } = new AbortController();
  await timed('a request for builds', () => call(service, `${path}/build_requests`, { commit_ref: commit.ref }));
  for (let at = 0; at < suitesEach; at += 1) {
    const name = randomName();
    const order = await timed('a claim', () => untilAnswered(signal, () => runner.next({ claim: name }, signal)));
    if (!order) throw new Error('there was nothing to claim');
    const outcome = { kind: 'exited', status: 0 } as const;
    const report = { claim: order.claim, outcome, logSize: 0 };
    await timed('an outcome', () => untilAnswered(signal, () => runner.finish(report, signal)));
  }
  const read = (what: string, at: string, headers: Record<string, string>): Promise<void> =>
    timed(what, async () => {
      const answer = await fetch(`${service.url}${at}`, { headers });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${at}: ${answer.status} ${text}`);
    });
  await read('the dashboard', '/ui/', { cookie });
  await read('the page of a project', `/ui${path}`, { cookie });
  const { authorization } = service;
  const lists = ['/commits', '/build_requests', `/commits/${commit.id_str}/builds`];
  for (const list of lists) await read(`GET …${list.replace(/\d+/, 'ID')}`, `${path}${list}`, { authorization });
}

async function measure(name: DatabaseName, small: Store, large: Store): Promise<Figure[]> {
  const [few, many]: [Taken, Taken] = [new Map(), new Map()];
  for (let turn = 0; turn < rounds; turn += 1) {
    if (turn === 5) [few, many].forEach((taken) => taken.clear()); // the first turns warm up
    const both = [() => visit(small, few), () => visit(large, many)];
    for (const one of turn % 2 === 0 ? both : both.reverse()) await one();
  }
  return Array.from(few, ([what, values]) => {
    const [one, other] = [median(values), median(many.get(what) ?? [])];
    return {
      what: `${what} on ${name}, time in a large store over a small one`,
      value: other / one,
      limit: { atMost: 1.2 },
      from: `${round(other)} ms with ${buildsWith(commitsEach.large)} builds against ${round(one)} ms with ${buildsWith(commitsEach.small)}`,
    };
  });
}
