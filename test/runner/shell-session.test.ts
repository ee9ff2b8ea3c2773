import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { textOf, type FrameLetter } from '../../src/shared/domain/shell-frames.ts';
import { ShellStream } from '../../src/shared/domain/shell-stream.ts';
import type { ShellOrder, SuiteOrder } from '../../src/shared/protocol/index.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { openKeptBuilds } from '../../src/runner/kept-builds.ts';
import { runShell } from '../../src/runner/shell-session.ts';
import { PacketRelay } from '../support/packet-relay.ts';
import { open as openBench, tree, usualLimits } from './sandbox/support.ts';

/** The runner's half of a shell, with the real sandbox and servers that do what the test says. */

const terminal = { terminal: { type: 'xterm', rows: 24, columns: 80 } };

/** `isFork` is whose commit the build was of. */
async function stage(t: TestContext, isFork = false) {
  const { sandboxes, folder, sh } = await openBench(t);
  const checkout = await tree(join(folder, 'checkout'), { 'tracked.txt': 'tracked\n' });
  await sandboxes.adopt(checkout);
  const kept = await openKeptBuilds({
    folder: join(folder, 'kept'),
    caches: { hold: () => undefined },
    trees: { hold: () => undefined },
    disk: { room: async () => 2 ** 40 },
    log: () => {},
  });
  const suite = {
    kind: 'run_suite',
    source: { projectId: '7', repositoryUrl: '' },
    sha: 'c0ffee',
    isFork,
    environment: { COLOUR: 'teal' },
    limits: { ...usualLimits, timeoutSeconds: 60 },
    software: [],
    prefixes: [],
    launches: [{ name: 'gate', command: 'echo launched > /tmp/launched' }],
  } as unknown as SuiteOrder;
  let files = { name: '', key: '' };
  await sh('echo made > made.txt; exit 1', {
    workspace: { checkout },
    onLeft: async (left) => void (files = await kept.retain(left, { order: suite }, { hours: 24, accountId: '1' })),
  });
  const services = {
    kept,
    sandboxes,
    checkouts: {
      of: async (_: unknown, commit: Pick<SuiteOrder, 'isFork'>) => {
        assert.equal(commit.isFork, isFork);
        return { path: checkout, misses: [], [Symbol.dispose]: () => {} };
      },
    },
    dependencyCache: { take: async () => ({ mounts: [], placesAt: () => [], [Symbol.dispose]: () => {} }) },
    log: () => {},
  } as unknown as RunnerDeps;
  const source = { projectId: '7', repositoryUrl: '', privateKey: '' };
  const order: ShellOrder = { id: '1', buildId: '2', ...files, source, lastsMs: 60_000, withheld: [] };
  return { services, order };
}

/** The person, at the other side of servers that do what the test says. */
class Person {
  readonly relay: PacketRelay;
  readonly #stream: ShellStream;
  #news = Promise.withResolvers<void>();
  readonly frames: string[] = [];

  constructor(relay: PacketRelay) {
    this.relay = relay;
    this.#stream = new ShellStream({ open: () => relay.socket('client') });
    void this.#watch();
  }

  async #watch(): Promise<void> {
    for await (const { letter, content } of this.#stream.frames()) {
      this.frames.push(`${letter} ${textOf(content)}`);
      this.#news.resolve();
      this.#news = Promise.withResolvers<void>();
    }
  }

  type(letter: FrameLetter, content: string): void {
    void this.#stream.send(letter, content);
  }

  /** As servers end it some time after a person has gone. */
  leave(): void {
    this.#stream.end();
    this.relay.over('runner', 'client_gone');
  }

  get text(): string {
    return this.frames
      .filter((frame) => frame.startsWith('d '))
      .map((frame) => frame.slice(2))
      .join('');
  }

  async until(sight: RegExp): Promise<void> {
    while (!sight.test(this.text)) await this.#news.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stream.end();
    await this.relay[Symbol.asyncDispose]();
  }
}

interface Given {
  idleMs?: number;
  order?: Partial<ShellOrder>;
  isFork?: boolean;
}

async function shell(t: TestContext, { idleMs, order: other, isFork }: Given = {}) {
  const { services, order } = await stage(t, isFork);
  const relay = await PacketRelay.start();
  const person = new Person(relay);
  const stream = new ShellStream({ open: () => relay.socket('runner') });
  const ended = runShell(services, { ...order, ...other }, stream, { idleMs });
  void ended.finally(() => stream.end());
  t.after(() => person[Symbol.asyncDispose]());
  return { person, ended };
}

test('nothing is lost when connections break', async (t) => {
  const { person, ended } = await shell(t);
  person.type('h', JSON.stringify(terminal));
  person.type('d', 'cat made.txt /tmp/launched; echo "$COLOUR" $TERM\n');
  await person.until(/made\r\nlaunched\r\nteal xterm\r\n/);
  for (const side of ['runner', 'client'] as const) {
    person.relay.break(side);
    person.type('d', `seq 1000 | tr '\\n' ' '; echo ${side}-done\n`);
    await person.until(new RegExp(`\\r1 2 [\\d ]* 999 1000 ${side}-done`));
  }
  person.type('d', 'exit 4\n');
  assert.equal(await ended, 'exited');
  assert.equal(person.frames.at(-1), 'x 4');
});

test('a shell in the build of a fork is over the work tree that a fork gets [promise: fork-sources]', async (t) => {
  const { person, ended } = await shell(t, { isFork: true });
  person.type('h', JSON.stringify(terminal));
  person.type('d', 'cat tracked.txt; exit 0\n');
  assert.equal(await ended, 'exited');
  assert.match(person.text, /tracked\r\n/);
});

test('a shell in which nothing happens ends, and says so', async (t) => {
  const { person, ended } = await shell(t, { idleMs: 2000 });
  person.type('h', JSON.stringify(terminal));
  assert.equal(await ended, 'idle');
  assert.deepEqual(person.frames.slice(-2), ['m The shell was idle for too long.', 'x 3']);
});

test('a shell whose person has gone ends with everything that runs in it', async (t) => {
  const { person, ended } = await shell(t);
  person.type('h', JSON.stringify(terminal));
  person.type('d', 'trap "" HUP TERM INT; echo deaf; sleep 999\n');
  await person.until(/\rdeaf/);
  person.leave();
  assert.equal(await ended, 'client_gone'); // the bench sees to it that no process is left
});

test('a shell whose time is over, whose files are gone or whose key is wrong opens nothing', async (t) => {
  const late = await shell(t, { order: { lastsMs: 300 } });
  late.person.type('h', JSON.stringify(terminal));
  assert.equal(await late.ended, 'exited');
  assert.deepEqual(late.person.frames.slice(-2), ['m The files of this build are no longer stored.', 'x 3']);
  const gone = await shell(t, { order: { name: 'another-name-of-files' } });
  assert.equal(await gone.ended, 'files_gone');
  assert.equal(gone.person.frames.at(-1), 'x 3');
  const wrong = await shell(t, { order: { key: '00'.repeat(32) } });
  assert.equal(await wrong.ended, 'failed');
  assert.equal(wrong.person.frames.at(-1), 'x 3');
});

test('frames that are none end the shell, and nothing else', async (t) => {
  const { person, ended } = await shell(t);
  person.type('d', 'no terminal before it');
  assert.equal(await ended, 'failed');
  const other = await shell(t);
  other.person.type('h', '{"terminal":');
  assert.equal(await other.ended, 'failed');
});
