import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { shellFrame, shellFrameReader, textOf } from '../../src/shared/domain/shell-frames.ts';
import { orAborted } from '../../src/shared/lib/or-aborted.ts';
import type { Link, ShellOrder, SuiteOrder } from '../../src/shared/protocol/index.ts';
import type { RunnerServices } from '../../src/runner/job-runner.ts';
import { openKeptBuilds } from '../../src/runner/kept-builds.ts';
import { openShellIo } from '../../src/runner/shell-io.ts';
import { runShell } from '../../src/runner/shell-session.ts';
import { open as openBench, tree, usualLimits } from './sandbox/support.ts';

/** The runner's half of a shell, with the real sandbox and a server that does what the test says. */

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
    onLeft: async (left) => void (files = await kept.keep(left, { order: suite }, { hours: 24, accountId: '1' })),
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
  } as unknown as RunnerServices;
  const source = { projectId: '7', repositoryUrl: '', privateKey: '' };
  const order: ShellOrder = { id: '1', buildId: '2', ...files, source, lastsMs: 60_000, withheld: [] };
  return { services, order };
}

/** A server with a person behind it. */
class Server implements Pick<Link, 'shellInput' | 'shellOutput'> {
  #typed: Buffer = Buffer.alloc(0);
  #news = Promise.withResolvers<void>();
  #seen: Buffer = Buffer.alloc(0);
  /** How often the answer to an output is lost. */
  losses = 0;
  isOver = false;

  type(...frames: Uint8Array[]): void {
    this.#typed = Buffer.concat([this.#typed, ...frames]);
    this.#tell();
  }

  leave(): void {
    this.isOver = true;
    this.#tell();
  }

  /** The person has lost everything that was shown, and asks for it from the beginning. */
  forget(): void {
    this.#seen = Buffer.alloc(0);
  }

  async shellInput({ from }: { from: number }, signal: AbortSignal): Promise<Buffer | undefined> {
    while (from >= this.#typed.length && !this.isOver) await orAborted(this.#news.promise, signal);
    return this.isOver ? undefined : this.#typed.subarray(from);
  }

  async shellOutput({ offset, bytes }: { offset: number; bytes: Uint8Array }) {
    if (this.isOver) return undefined;
    if (offset <= this.#seen.length) this.#seen = Buffer.concat([this.#seen.subarray(0, offset), bytes]);
    this.#tell();
    if (this.losses > 0) {
      this.losses -= 1;
      throw new Error('the connection broke');
    }
    return { at: this.#seen.length };
  }

  get frames(): string[] {
    return shellFrameReader()(this.#seen).map(({ letter, content }) => `${letter} ${textOf(content)}`);
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

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers<void>();
  }
}

const ending = new AbortController().signal;

interface Given {
  idleMs?: number;
  order?: Partial<ShellOrder>;
  isFork?: boolean;
}

async function shell(t: TestContext, { idleMs, order: other, isFork }: Given = {}) {
  const { services, order } = await stage(t, isFork);
  const server = new Server();
  const io = openShellIo(server, '1', ending);
  const ended = runShell(services, { ...order, ...other }, io, { idleMs });
  void ended.finally(() => void io.close());
  return { server, ended };
}

test('nothing is lost when connections break, and everything is told again to who asks for it', async (t) => {
  const { server, ended } = await shell(t);
  server.losses = 3;
  server.type(shellFrame('h', JSON.stringify(terminal)));
  server.type(shellFrame('d', 'cat made.txt /tmp/launched; echo "$COLOUR" $TERM\n'));
  await server.until(/made\r\nlaunched\r\nteal xterm\r\n/);
  server.forget();
  server.type(shellFrame('p'));
  await server.until(/made\r\nlaunched\r\nteal xterm\r\n/);
  server.type(shellFrame('d', 'exit 4\n'));
  assert.equal(await ended, 'exited');
  assert.equal(server.frames.at(-1), 'x 4');
});

test('a shell in the build of a fork is over the work tree that a fork gets [promise: fork-sources]', async (t) => {
  const { server, ended } = await shell(t, { isFork: true });
  server.type(shellFrame('h', JSON.stringify(terminal)), shellFrame('d', 'cat tracked.txt; exit 0\n'));
  assert.equal(await ended, 'exited');
  assert.match(server.text, /tracked\r\n/);
});

test('a shell in which nothing happens ends, and says so', async (t) => {
  const { server, ended } = await shell(t, { idleMs: 2000 });
  server.type(shellFrame('h', JSON.stringify(terminal)));
  assert.equal(await ended, 'idle');
  assert.deepEqual(server.frames.slice(-2), ['m The shell was idle for too long.', 'x 3']);
});

test('a shell whose person has gone ends with everything that runs in it', async (t) => {
  const { server, ended } = await shell(t);
  server.type(
    shellFrame('h', JSON.stringify(terminal)),
    shellFrame('d', 'trap "" HUP TERM INT; echo deaf; sleep 999\n'),
  );
  await server.until(/\rdeaf/);
  server.leave();
  assert.equal(await ended, 'client_gone'); // the bench sees to it that no process is left
});

test('a shell whose time is over, whose files are gone or whose key is wrong opens nothing', async (t) => {
  const late = await shell(t, { order: { lastsMs: 300 } });
  late.server.type(shellFrame('h', JSON.stringify(terminal)));
  assert.equal(await late.ended, 'exited');
  assert.deepEqual(late.server.frames.slice(-2), ['m The files of this build are not kept any longer.', 'x 3']);
  const gone = await shell(t, { order: { name: 'another-name-of-files' } });
  assert.equal(await gone.ended, 'files_gone');
  assert.equal(gone.server.frames.at(-1), 'x 3');
  const wrong = await shell(t, { order: { key: '00'.repeat(32) } });
  assert.equal(await wrong.ended, 'failed');
  assert.equal(wrong.server.frames.at(-1), 'x 3');
});

test('frames that are none end the shell, and nothing else', async (t) => {
  const { server, ended } = await shell(t);
  server.type(Buffer.from([0x64, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]));
  assert.equal(await ended, 'failed');
});
