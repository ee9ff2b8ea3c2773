import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import type { Terminal } from '../../../src/runner/sandbox/terminal.ts';
import { wholeRun, type Job, type Sandboxes } from '../../../src/runner/sandbox/types.ts';
import { open, tree, usualLimits } from './support.ts';

type Typing = Pick<Terminal, 'type' | 'resize'>;

/** A run in a terminal: what it shows so far, and waiting until something is shown. */
function start(sandboxes: Sandboxes, command: string, changes: Partial<Job> = {}) {
  const opened = Promise.withResolvers<Typing>();
  let shown = '';
  let tell = (): void => {};
  const ended = sandboxes.run({
    id: `terminal-${Math.random().toString(36).slice(2)}`,
    steps: [{ name: 'shell', command }],
    environment: { TERM: 'xterm', PS1: '> ' },
    workspace: { empty: true },
    limits: usualLimits,
    terminal: { size: { rows: 24, columns: 80 }, onOpen: opened.resolve },
    output: (chunk) => {
      shown += chunk.toString();
      tell();
    },
    signal: new AbortController().signal,
    ...changes,
  });
  ended.catch(opened.reject);
  const until = async (pattern: RegExp): Promise<void> => {
    const over = ended.then(() => 'over');
    while (!pattern.test(shown)) {
      const { promise, resolve } = Promise.withResolvers<string>();
      tell = () => resolve('more');
      if ((await Promise.race([promise, over])) === 'over' && !pattern.test(shown))
        assert.fail(`it ended, and ${pattern} was not shown: ${JSON.stringify(shown)}`);
    }
  };
  const type = async (text: string): Promise<void> => (await opened.promise).type(Buffer.from(text));
  return {
    ended,
    until,
    type,
    resize: async (rows: number, columns: number) => (await opened.promise).resize({ rows, columns }),
    shown: () => shown,
  };
}

test('a run in a terminal is asked, resized and interrupted like in any other', async (t) => {
  const { sandboxes } = await open(t);
  const shell = start(sandboxes, 'exec sh -i');
  await shell.type('tty; stty size\n');
  await shell.until(/\/dev\/pts\/0[^]*24 80/);
  await shell.resize(40, 132);
  await shell.type('stty size\n');
  await shell.until(/40 132/);
  // It says so itself: before it has the terminal, the shell may get the Ctrl-C. A prompt may stand before
  // its word: the shell writes one when it likes.
  await shell.type('sh -c "echo now; exec sleep 1000"\n');
  await shell.until(/now\r\n/);
  await shell.type('\u0003');
  await shell.type('echo status $?\n');
  await shell.until(/status 130/);
  assert.doesNotMatch(shell.shown(), /job control/);
  await shell.type('exit 7\n');
  const { used: _used, ...ended } = await shell.ended;
  assert.deepEqual(ended, { exitStatus: 7, step: 'shell', reason: null });
});

test('much that is typed at once arrives as a whole', async (t) => {
  const { sandboxes } = await open(t);
  const shell = start(sandboxes, 'stty raw -echo; echo begun; head -c 1000000 | wc -c');
  await shell.until(/begun/);
  await shell.type('x'.repeat(1_000_000));
  await shell.until(/1000000/);
  assert.equal((await shell.ended).exitStatus, 0);
});

test('a program that writes without end can be interrupted, while nobody reads', async (t) => {
  const { sandboxes } = await open(t);
  const reading = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  let isHeld = true;
  let last = '';
  const opened = Promise.withResolvers<Typing>();
  const ended = sandboxes.run({
    id: 'flood',
    steps: [{ name: 'shell', command: 'yes flood; echo interrupted; exit 3' }],
    environment: {},
    workspace: { empty: true },
    limits: usualLimits,
    terminal: { size: { rows: 24, columns: 80 }, onOpen: opened.resolve },
    output: async (chunk) => {
      last = (last + chunk.toString()).slice(-200);
      begun.resolve();
      if (isHeld) await reading.promise;
    },
    signal: new AbortController().signal,
  });
  await begun.promise;
  await (await opened.promise).type(Buffer.from('\u0003'));
  isHeld = false;
  reading.resolve();
  // The shell was interrupted too: it led no other job.
  const { exitStatus } = await ended;
  assert.ok(exitStatus === 130 || exitStatus === 3, `${exitStatus}: ${last}`);
});

test('a run that is cancelled leaves neither its processes nor the holder of its terminal', async (t) => {
  const { sandboxes } = await open(t);
  const cancel = new AbortController();
  const shell = start(sandboxes, 'trap "" HUP; echo here; exec sleep 1000', { signal: cancel.signal });
  await shell.until(/here/);
  cancel.abort();
  assert.equal((await shell.ended).reason, 'cancelled');
});

test('what a run has written is moved as a whole, and is what the next one finds', async (t) => {
  const { sandboxes, folder, sh } = await open(t);
  const checkout = await tree(join(folder, 'checkout'), {
    'old.txt': 'old\n',
    'gone.txt': 'x\n',
    'dir/in.txt': 'in\n',
  });
  await sandboxes.adopt(checkout);
  const kept = join(folder, 'kept');
  const first = await sh(
    'echo new > new.txt; echo more >> old.txt; rm gone.txt; rm -r dir; mkdir dir; echo other > dir/other; echo t > /tmp/t; ' +
      'echo h > ~/h; chmod 0 /build/new.txt; chmod 500 /build; exit 1',
    { workspace: { checkout }, onLeft: async (left) => left.keepWhole(kept) },
  );
  assert.equal(first.exitStatus, 1);
  const layers = {
    workspace: { checkout, over: [join(kept, wholeRun.workspace)] },
    home: [join(kept, wholeRun.home)],
    tmp: [join(kept, wholeRun.tmp)],
  };
  const look =
    'ls; ls dir; chmod 700 . new.txt; cat old.txt new.txt /tmp/t ~/h; stat -c %a /tmp; echo again > /tmp/u; rm old.txt';
  const expected = 'dir\nnew.txt\nold.txt\nother\nold\nmore\nnew\nt\nh\n1777\n';
  // Both begin with the same files, at the same time or one after the other.
  const both = await Promise.all([sh(look, layers), sh(look, layers)]);
  assert.deepEqual(
    [...both, await sh(look, layers)].map(({ text }) => text),
    [expected, expected, expected],
  );
});
