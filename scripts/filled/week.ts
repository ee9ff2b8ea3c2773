import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { frameHead } from '../../src/shared/domain/file-frames.ts';
import { runDueSchedules } from '../../src/server/triggers/schedules.ts';
import { fetchSlots } from '../../src/shared/domain/runner-slots.ts';
import type { CommitReport, Order, StepState, SuiteOrder, TestReport } from '../../src/shared/protocol/index.ts';
import type { Runner } from '../../src/server/auth/runners.ts';
import { setClock } from './clock.ts';
import { machines, names, projects, type ProjectPlan, type SuitePlan } from './plan.ts';
import type { Machine, Running } from './running.ts';

const [second, minute] = [1000, 60_000];
const hour = 60 * minute;
const day = 24 * hour;
const week = 7 * day;

interface Commit {
  project: string;
  branch: string;
  subject: string;
  author: string;
  parent: string;
  at: number;
}

interface Slots {
  machine: Machine;
  builds: number;
  fetches: number;
  /** Away from then on. */
  until: number;
}

/** Lets a week of work happen, on a clock that it moves, up to `end`. */
export async function liveTheWeek(
  start: () => Promise<Running>,
  end: number,
  log: (line: string) => void,
): Promise<void> {
  setClock(end - week);
  const running = await start();
  await new Week(running, end, log).live();
  await running.close();
}

class Week {
  readonly #running: Running;
  readonly #end: number;
  readonly #roll = dice(7);
  readonly #events: { at: number; happen: () => Promise<void> }[] = [];
  readonly #commits = new Map<string, Commit>();
  readonly #heads = new Map<string, string>();
  readonly #plans = new Map<string, ProjectPlan>();
  readonly #projects = new Map<string, { id: string; hook: string; secret: string }>();
  readonly #slots: Slots[] = [];
  readonly #log: (line: string) => void;
  #isRefusing = false;

  constructor(running: Running, end: number, log: (line: string) => void) {
    this.#running = running;
    this.#end = end;
    this.#log = log;
  }

  async live(): Promise<void> {
    const begin = this.#end - week;
    for (const machine of await this.#running.machines()) {
      const away = machines.find(({ name }) => name === machine.name)?.awayHours ?? 0;
      const until = away > 0 ? this.#end - away * hour : Infinity;
      this.#slots.push({ machine, until, builds: machine.builds, fetches: fetchSlots(machine.builds) });
      await this.#running.hear(machine);
    }
    const receiver = createServer((request, response) => {
      const isRefused = this.#isRefusing && request.url === '/chat';
      response.writeHead(isRefused ? 503 : 200).end(isRefused ? 'the chat is being moved' : 'thank you');
    });
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    const { port } = receiver.address() as AddressInfo;
    for (const plan of projects) await this.#make(plan, `http://hooks.example.org:${port}`);
    this.#at(this.#end - 20 * hour, async () => void (this.#isRefusing = true));
    for (let from = begin; from < this.#end; from += day) this.#planDay(from);
    this.#planLastMinutes();
    await this.#run();
    for (const { machine, until } of this.#slots.filter((one) => one.until < Infinity)) {
      const { db } = this.#running.store;
      const { holder } = machine.self;
      const last = { seen_at: BigInt(until) };
      await db.transaction((trx) =>
        trx.updateTable('runner_heartbeats').set(last).where('holder', '=', holder).execute(),
      );
    }
    await new Promise((resolve) => receiver.close(resolve).closeAllConnections());
  }

  #at(at: number, happen: () => Promise<void>): void {
    if (at >= this.#end) return;
    this.#events.push({ at, happen });
  }

  async #run(): Promise<void> {
    const { store } = this.#running;
    for (let count = 0; this.#events.length > 0; count += 1) {
      let first = 0;
      this.#events.forEach(({ at }, index) => {
        if (at < (this.#events[first]?.at ?? 0)) first = index;
      });
      const [next] = this.#events.splice(first, 1);
      if (!next) break;
      setClock(next.at);
      await store.proveWritable(); // new identifiers get the new time
      await next.happen();
      for (const slots of this.#slots) await this.#handOut(slots);
      if (count % 500 === 0) this.#log(`${new Date().toISOString()}: ${count} events, ${this.#events.length} ahead`);
    }
  }

  async #make(plan: ProjectPlan, receiver: string): Promise<void> {
    const { as } = this.#running;
    const api = as(plan.owner);
    const project = await api('POST', '/projects', {
      name: plan.name,
      description: plan.description,
      repository_url: `git@git.example.org:water/${plan.name}.git`,
      cancel_superseded: 'waiting',
    });
    const path = `/projects/${project.id_str}`;
    for (const email of plan.people) await api('POST', `${path}/collaborators`, { email });
    const suites = new Map<string, string>();
    for (const { name, fields, steps, needs = [] } of plan.suites) {
      const command: Record<string, string> =
        steps.length === 1
          ? { command: steps[0]?.command ?? '' }
          : Object.fromEntries(
              steps.flatMap((step, at) => [
                [`steps[${at}][name]`, step.name],
                [`steps[${at}][command]`, step.command],
              ]),
            );
      const needed = needs.map((need, at) => [`needs[${at}]`, suites.get(need) ?? '']);
      const suite = await api('POST', `${path}/suites`, { name, ...command, ...fields, ...Object.fromEntries(needed) });
      suites.set(name, suite.id_str);
    }
    const variable = { name: 'REGISTRY_TOKEN', content: 'a-token-of-the-registry', secret: 'true' };
    await api('POST', `${path}/environment_variables`, variable);
    if (plan.ships) {
      const form = { name: 'production', strategy_type: 'suite', 'options[suite_id]': suites.get(plan.ships) ?? '' };
      const { id_str: strategy } = await api('POST', `${path}/deploy_strategies`, form);
      for (let at = this.#end - week; at < this.#end; at += day) {
        const deploy = (id: string) => api('POST', `${path}/deploys`, { deploy_strategy_id: id });
        this.#at(at + (4 + 4 * this.#roll()) * hour, async () => void (await deploy(strategy).catch(() => {})));
      }
    }
    if (plan.name === 'harbour-web') {
      await api('POST', `${path}/deploy_strategies`, {
        name: 'staging',
        strategy_type: 'git',
        'options[repository_url]': 'git@staging.example.org:harbour.git',
        'options[local_branch]': 'main',
        'options[remote_branch]': 'live',
      });
    }
    for (const kind of plan.webhooks ?? []) {
      const url = `${receiver}/${kind === 'heard' ? 'deploys' : 'chat'}`;
      await api('POST', `${path}/notifications`, { notifiable_type: 'build', name: 'webhook', 'options[url]': url });
    }
    if (plan.nightly !== undefined) {
      await api('POST', `${path}/schedules`, {
        cron: `0 ${plan.nightly} * * *`,
        time_zone: 'Europe/Amsterdam',
        commit_ref: 'main',
      });
    }
    const hook = await api('POST', `${path}/hooks`, { provider: 'generic' });
    this.#plans.set(project.id_str, plan);
    this.#projects.set(plan.name, { id: project.id_str, hook: hook.id_str, secret: String(hook.secret) });
  }

  #planDay(from: number): void {
    const start = new Date(from);
    const weekend = [0, 6].includes(new Date(from + 8 * hour).getUTCDay());
    const midnight = from - (start.getTime() % day);
    for (const plan of projects) {
      const count = Math.round(plan.pushesADay * (weekend ? 0.2 : 1) * (0.6 + 0.8 * this.#roll()));
      for (let push = 0; push < count; push += 1) {
        // Most of the work happens between eight and six.
        const at = midnight + (8 + 10 * ((this.#roll() + this.#roll()) / 2)) * hour;
        this.#at(at < from ? at + day : at, () => this.#push(plan));
      }
    }
    for (const minutes of [10, 11, 70, 131, 250]) {
      this.#at(midnight + day + minutes * minute, () => this.#runSchedules());
    }
    for (const clock of [9.5, 13, 16.5]) this.#at(midnight + clock * hour, () => this.#approve());
  }

  /** So something runs and waits at the end. */
  #planLastMinutes(): void {
    for (const [name, before] of Object.entries({
      'pump-firmware': 150,
      'river-gauge': 70,
      'survey-app': 60,
      'harbour-web': 35,
      'weir-api': 6,
    })) {
      const plan = projects.find((one) => one.name === name);
      if (plan) this.#at(this.#end - before * second, () => this.#push(plan, 'main'));
    }
  }

  async #runSchedules(): Promise<void> {
    const { store } = this.#running;
    await runDueSchedules(store, Date.now(), (error) => {
      throw error;
    });
  }

  async #approve(): Promise<void> {
    const { store, as } = this.#running;
    const waiting = await store.db.read
      .selectFrom('builds')
      .select(['id', 'project_id'])
      .where('build_state', '=', 'waiting_for_approval')
      .execute();
    for (const { id, project_id: project } of waiting) {
      const plan = this.#plans.get(String(project));
      if (!plan || this.#roll() < 0.3) continue;
      await as(plan.owner)('POST', `/projects/${project}/builds/${id}/approve`).catch(() => {});
    }
  }

  async #push(plan: ProjectPlan, only?: string): Promise<void> {
    const { as } = this.#running;
    const { id, hook, secret } = this.#projects.get(plan.name) ?? { id: '', hook: '', secret: '' };
    const team = [plan.owner, ...plan.people];
    const author = team[Math.floor(this.#roll() * team.length)] ?? plan.owner;
    const main = `${plan.name} main`;
    const branch = only ?? (this.#heads.has(main) && this.#roll() < 0.45 ? this.#one(plan.branches) : 'main');
    const sha = Array.from({ length: 40 }, () => Math.floor(this.#roll() * 16).toString(16)).join('');
    const parent = this.#heads.get(`${plan.name} ${branch}`) ?? this.#heads.get(main) ?? '';
    this.#commits.set(sha, { project: id, branch, subject: this.#one(plan.subjects), author, parent, at: Date.now() });
    this.#heads.set(`${plan.name} ${branch}`, sha);
    if (this.#roll() < 0.15) {
      await as(author)('POST', `/projects/${id}/build_requests`, { commit_ref: branch });
      return;
    }
    const isPull = branch !== 'main' && this.#roll() < 0.4;
    const ref = isPull ? `refs/pull/${100 + plan.branches.indexOf(branch)}/head` : `refs/heads/${branch}`;
    await as(author)(
      'POST',
      `/hooks/${hook}`,
      { ref, sha, sender: names[author] ?? author },
      { authorization: `Bearer ${secret}` },
    );
  }

  async #handOut(slots: Slots): Promise<void> {
    const { dispatch } = this.#running;
    const { self } = slots.machine;
    if (Date.now() > slots.until) return;
    for (const slot of ['fetches', 'builds'] as const) {
      while (slots[slot] > 0) {
        const order = await dispatch.next(self, { claim: randomUUID(), slot, holdMs: 0 }, new AbortController().signal);
        if (!order) break;
        slots[slot] -= 1;
        this.#do(self, order, async () => void (slots[slot] += 1));
      }
    }
  }

  #do(self: Runner, order: Order, free: () => Promise<void>): void {
    const { dispatch } = this.#running;
    const { claim, work } = order;
    const done = (after: number, finish: () => Promise<unknown>): void => {
      // What is under way at the end stays so.
      this.#at(Date.now() + after, async () => {
        await finish();
        await free();
      });
    };
    if (work.kind === 'fetch_commit') {
      const { commitRef, source } = work;
      const branch = commitRef === '' ? 'main' : commitRef.replace('refs/heads/', '');
      const name = this.#plans.get(source.projectId)?.name ?? '';
      const sha = this.#commits.has(commitRef) ? commitRef : (this.#heads.get(`${name} ${branch}`) ?? '');
      const commit = this.#commits.get(sha);
      done((1.5 + 3 * this.#roll()) * second, async () => {
        const text = Buffer.from(`Looking for ${commitRef} in git@git.example.org:water/${name}.git.\n${sha}\n`);
        await dispatch.log(self, { claim, offset: order.logOffset, bytes: text });
        const logSize = order.logOffset + text.length;
        const outcome = commit
          ? ({ kind: 'fetched', commit: this.#reported(sha, commit) } as const)
          : ({ kind: 'unfetchable', reason: 'ref_not_found' } as const);
        await dispatch.finish(self, { claim, outcome, logSize });
      });
    } else if (work.kind === 'run_suite') {
      this.#runSuite(self, order as Order & { work: SuiteOrder }, free);
    } else if (work.kind === 'push_deploy') {
      done(9 * second, () => dispatch.finish(self, { claim, outcome: { kind: 'pushed' }, logSize: order.logOffset }));
    } else {
      done(second, () => dispatch.finish(self, { claim, outcome: { kind: 'cancelled' }, logSize: order.logOffset }));
    }
  }

  #reported(sha: string, { branch, subject, author, parent, at }: Commit): CommitReport {
    const [name = '', date] = [names[author], new Date(at - minute).toISOString().replace(/\.\d+Z/, '+00:00')];
    const person = { authorName: name, authorEmail: author, committerName: name, committerEmail: author };
    return {
      sha,
      ...(parent === '' ? {} : { parent }),
      message: `${subject}\n`,
      ...person,
      authoredDate: date,
      committedDate: date,
      branches: [branch],
      tags: [],
      files: ['src/average.ts', 'src/gauge.ts', 'test/average.test.ts'].slice(0, 1 + Math.floor(this.#roll() * 3)),
      ref: `refs/heads/${branch}`,
      branch,
      overwritten: false,
      defaultBranch: branch === 'main' ? 'main' : null,
      defaultHead: branch === 'main' ? 'this' : 'kept',
    };
  }

  #runSuite(self: Runner, order: Order & { work: SuiteOrder }, free: () => Promise<void>): void {
    const { dispatch } = this.#running;
    const { claim, work } = order;
    const { environment } = work;
    const plan = this.#plans.get(work.source.projectId);
    const suite = plan?.suites.find(({ name }) => name === environment.HEADRACE_SUITE);
    if (!plan || !suite) throw new Error(`nobody planned ${environment.HEADRACE_SUITE}`);
    const began = Date.now();
    const variant = environment.HEADRACE_VARIANT ?? '';
    const isFaulty =
      dice(hash(work.sha + suite.name))() < suite.fails * (this.#commits.get(work.sha)?.branch === 'main' ? 0.7 : 1.8);
    const flakes = this.#roll() < (suite.flaky ?? 0);
    const hits = variant === '' || dice(hash(work.sha + variant))() < 0.6;
    const fails = (isFaulty && hits) || flakes;
    const isTimeout = fails && !isFaulty && this.#roll() < 0.05;
    const speed = 0.8 + 0.4 * this.#roll() + (variant === '' ? 0 : (hash(variant) % 40) / 100);
    const total = suite.seconds * second * speed * (fails ? 0.3 + 0.6 * this.#roll() : 1);
    const failing = fails ? suite.steps.length - 1 : -1;

    let [size, line, offset] = [order.logOffset, 1, 0];
    const write = async (text: string): Promise<void> => {
      const bytes = Buffer.from(text);
      await dispatch.log(self, { claim, offset: size, bytes });
      size += bytes.length;
      line += text.split('\n').length - 1;
    };
    const states: StepState[] = suite.steps.map(({ name }) => ({ name, state: 'waiting' }));
    const services = (work.services ?? []).map(({ name }) => ({ name, state: 'ready' as const, from: 0, ready: 3000 }));
    this.#at(began + 300, async () => {
      await write(`Runner ${self.holder}: commit ${work.sha.slice(0, 10)}${variant === '' ? '' : `, ${variant}`}\n`);
      if (services.length > 0) await dispatch.services(self, { claim, services });
    });
    suite.steps.forEach((step, at) => {
      const length = Math.round(total * step.part);
      const from = offset + 1000;
      offset += length;
      const lines = step.says(this.#roll, at === failing);
      const pieces = Math.min(4, lines.length);
      this.#at(began + from, async () => {
        states[at] = { name: step.name, state: 'running', from, line };
        if (suite.steps.length > 1) await dispatch.steps(self, { claim, steps: states });
      });
      for (let piece = 0; piece < pieces; piece += 1) {
        const part = lines.slice((piece * lines.length) / pieces, ((piece + 1) * lines.length) / pieces);
        this.#at(began + from + 200 + (piece * (length - 500)) / pieces, () => write(`${part.join('\n')}\n`));
      }
      this.#at(began + from + length, async () => {
        const state = at === failing ? 'failed' : 'passed';
        states[at] = { ...states[at], name: step.name, state, to: from + length, status: at === failing ? 1 : 0 };
      });
    });
    this.#at(began + offset + 1500, async () => {
      const tests = testsOf(suite, fails, this.#roll);
      if (tests.length > 0 && work.reports) await dispatch.tests(self, { claim, start: 0, tests, isLast: true });
      if (!fails && work.artifacts) {
        await dispatch.storeFiles(self, claim, framesOf(suite.artifacts ?? {}));
      }
      const whole = states.map((state) => ({
        ...state,
        from: Math.floor(state.from ?? 0),
        to: Math.floor(state.to ?? 0),
      }));
      const more = {
        ...(suite.steps.length > 1 ? { stepStates: whole } : {}),
        ...(services.length > 0
          ? {
              services: services.map((one) => ({
                ...one,
                state: 'stopped' as const,
                to: Math.floor(offset + 1400),
                status: 0,
              })),
            }
          : {}),
      };
      const outcome = isTimeout
        ? ({ kind: 'timed_out' } as const)
        : ({ kind: 'exited', status: fails ? 1 : 0 } as const);
      await dispatch.finish(self, { claim, outcome, logSize: size, ...more });
      await free();
      if (fails && environment.HEADRACE_ATTEMPT === '1' && this.#roll() < 0.35) this.#restart(plan, environment);
    });
  }

  #restart(plan: ProjectPlan, { HEADRACE_BUILD_ID: id = '' }: Record<string, string>): void {
    const { as } = this.#running;
    const path = `/projects/${this.#projects.get(plan.name)?.id}/builds/${id}/restart`;
    this.#at(Date.now() + (3 + 20 * this.#roll()) * minute, async () => {
      await as(plan.owner)('POST', path).catch(() => {});
    });
  }

  #one<T>(list: readonly T[]): T {
    return list[Math.floor(this.#roll() * list.length)] as T;
  }
}

function testsOf({ name, tests = [], steps }: SuitePlan, fails: boolean, roll: () => number): TestReport[] {
  const broken = fails ? Math.floor(roll() ** 2 * tests.length) : -1;
  const said = steps.at(-1)?.says(roll, true) ?? [];
  const from = said.findIndex((line) => line.startsWith('    ') || line.includes('panic') || line.startsWith('E '));
  const message = said
    .slice(Math.max(0, from), from + 6)
    .join('\n')
    .replaceAll('    ', '');
  return tests.map((test, at): TestReport => ({
    name: test,
    class: '',
    suite: name,
    file: 'test/average.test.ts',
    state: at === broken ? 'failed' : at % 9 === 8 ? 'skipped' : 'passed',
    durationMs: Math.floor(3 + (hash(test) % 4000) * (0.7 + 0.6 * roll())),
    message: at === broken ? message : at % 9 === 8 ? 'not on this machine' : '',
  }));
}

async function* framesOf(files: Record<string, number>): AsyncGenerator<Buffer> {
  for (const [path, size] of Object.entries(files)) {
    yield frameHead('F', size, path);
    yield Buffer.alloc(size, `${path}\n`);
  }
}

/** The same numbers in each run, so that two fillings can be compared. */
export function dice(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function hash(text: string): number {
  let value = 2_166_136_261;
  for (const letter of text) value = Math.imul(value ^ (letter.codePointAt(0) ?? 0), 16_777_619) >>> 0;
  return value;
}
