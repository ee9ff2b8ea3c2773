import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { Link, ServiceOrder } from '../../src/protocol/index.ts';
import { openCacheStore } from '../../src/runner/cache-store.ts';
import type { RunnerServices } from '../../src/runner/job-runner.ts';
import { createServiceSender } from '../../src/runner/services/service-sender.ts';
import { openSuiteServices, type ServicesOptions } from '../../src/runner/services/suite-services.ts';
import { longestWait } from '../support/pauses.ts';
import { marked, open, tree, usualLimits, type Ran } from './sandbox/support.ts';

/** What hostile services try, with the real sandbox. They have no image: their programs are the machine's. */

const service = (name: string, more: Partial<ServiceOrder> = {}): ServiceOrder => ({
  name,
  software: [],
  prefixes: [],
  command: 'exec sleep 1000',
  environment: {},
  readyPort: 0,
  readyCommand: '',
  readyTimeoutSeconds: longestWait / 1000,
  prepare: '',
  prepareInputs: [],
  data: [],
  ...more,
});

async function stage(t: TestContext) {
  const { sandboxes, folder, sh, logged } = await open(t);
  const checkout = await tree(join(folder, 'checkout'), { file: '' });
  await sandboxes.adopt(checkout);
  const log = (line: string): void => void logged.push(line);
  const store = await openCacheStore({
    folder: join(folder, 'data'),
    link: { read: () => assert.fail('no server has the data of services') },
    sandboxes,
    disk: { room: async () => 2 ** 40 },
    log,
  });
  const mark = `mark-${Math.random()}`;
  const means = {
    sandboxes,
    dependencyCache: { take: async () => ({ mounts: [], directoriesAt: () => [], [Symbol.dispose]: () => {} }) },
    operatorVariables: () => ({ TEST_MARK: mark }),
    scratch: folder,
    serviceData: store,
    log,
  } as unknown as RunnerServices;
  /** A build with these services, as the runner runs it. */
  const build = async (
    command: string,
    orders: ServiceOrder[],
    options: Partial<ServicesOptions> = {},
  ): Promise<Ran & { said: string }> => {
    let said = '';
    const { signal = new AbortController().signal } = options;
    await using beside = await openSuiteServices(means, {
      orders,
      takeImage: () => assert.fail('none has an image'),
      project: '7',
      isFork: false,
      limits: usualLimits,
      secrets: [],
      openLog: () => ({ write: (bytes) => void (said += bytes.toString()) }),
      print: async () => {},
      signal,
      ...options,
    });
    const job = { environment: {}, workspace: { checkout }, mounts: beside.mounts, limits: usualLimits };
    try {
      const ended = await sh(command, {
        ...job,
        before: (around) => beside.start(around, job),
        onOver: beside.over,
        signal: AbortSignal.any([signal, beside.signal]),
      });
      const died = beside.failure();
      if (died) throw died;
      return { ...ended, said };
    } finally {
      assert.deepEqual(marked(mark), [], 'processes of services are left');
    }
  };
  return { build, sh, folder, store, logged };
}

/** Takes directories from whoever connects, and swaps `d` and `l` in them without end. */
const swapping = `exec python3 -c '
import ctypes, os, socket
swap = ctypes.CDLL(None).renameat2
listening = socket.socket(socket.AF_UNIX)
listening.bind("\\0swap")
listening.listen()
while True:
    connection, _ = listening.accept()
    (directory, *_) = socket.recv_fds(connection, 1, 1)[1]
    if os.fork() == 0:
        while True: swap(directory, b"d", directory, b"l", 2)
    connection.send(b"x")
'`;
const handing = (directory: string): string => `python3 -c '
import os, socket, time
connection = socket.socket(socket.AF_UNIX)
while connection.connect_ex("\\0swap") != 0: time.sleep(0.01)
socket.send_fds(connection, [b"x"], [os.open("${directory}", os.O_RDONLY)])
connection.recv(1)
'`;

test('what it leaves as data leads nowhere else, also while others change it [promise: service-data]', async (t) => {
  const { build, folder, logged } = await stage(t);
  const target = await tree(join(folder, 'target'), { 'kept/file': '', secret: 'of the machine', other: '' });
  const fill = `mkdir -p d/kept; echo of the service >d/kept/file; ln -s ${target} l; chmod 777 . d`;
  const keeper = service('keeper', {
    command: `cd; ls -A . linked/ 2>/dev/null || :
      if [ ! -e own ]; then ${fill}; ln -s ${target} linked; ln -s ${target} /tmp/way; ${handing('/home/build')}; fi
      mkdir -p own; touch own/$$ up; trap 'exit 0' TERM; sleep 1000 & wait`,
    readyCommand: 'test -e ~/up',
    prepare: `cd /tmp; ${fill}; ${handing('/tmp')}; echo prepared`,
    data: ['/home/build/d/kept', '/home/build/linked', '/home/build/own', '/tmp/way/kept'],
  });
  const swapper = service('swapper', { command: swapping, readyCommand: 'grep -q @swap /proc/net/unix' });
  for (const at of [1, 2, 3]) {
    const first = { ...keeper, environment: { ROUND: `${at}` } };
    const { said, exitStatus } = await build('true', [swapper, first]).catch((error: unknown) =>
      assert.fail(`${String(error)} ${logged.join('\n')}`),
    );
    assert.equal(exitStatus, 0);
    assert.match(said, /prepared\n/);
    // It began again with what it had left, where no link was.
    assert.match(said, /prepared\n(.*\n)*own\n/, said);
    assert.doesNotMatch(said.slice(said.indexOf('prepared')), /linked|secret/);
  }
  assert.deepEqual(readdirSync(target).toSorted(), ['kept', 'other', 'secret']);
  assert.deepEqual(readdirSync(join(target, 'kept')), ['file']);
});

test('a fork begins with what branches made, and leaves nothing [promise: service-data]', async (t) => {
  const { build } = await stage(t);
  const order = (colour: string): ServiceOrder =>
    service('db', {
      command: `cat ~/data/made 2>/dev/null || :; mkdir -p ~/data; trap 'exit 0' TERM; touch /tmp/up; sleep 1000 & wait`,
      environment: { COLOUR: colour },
      readyCommand: 'test -e /tmp/up',
      prepare: 'echo filling',
      data: ['/home/build/data'],
    });
  const colours = { red: ['filling\n', 'filling\n'], blue: ['filling\n', ''] };
  for (const [colour, said] of Object.entries(colours)) {
    const isFork = colour === 'red';
    assert.equal((await build('true', [order(colour)], { isFork })).said, said[0], colour);
    assert.equal((await build('true', [order(colour)], { isFork: true })).said, said[1], colour);
  }
});

test('it ends with its build, is heard within bounds, and is its build’s alone [promise: service-isolation]', async (t) => {
  const { build, sh } = await stage(t);
  const deaf = "trap 'echo asked' TERM; sleep 1000 & while :; do wait; done";
  // Who cancels a build does not wait for as long as a database may take to write out its data.
  const cancelling = new AbortController();
  const orders = [
    service('deaf', {
      command: `(${deaf}) & (setsid sh -c "${deaf}") & ${deaf}`,
      prepare: 'echo filled',
      data: ['/home/build/data'],
    }),
  ];
  const began = performance.now();
  let calledOff = Infinity;
  const cancelled = build('true', orders, {
    signal: cancelling.signal,
    openLog: () => ({
      write(bytes) {
        if (!bytes.includes('asked')) return;
        calledOff = Math.min(calledOff, performance.now());
        cancelling.abort();
      },
    }),
  });
  await assert.rejects(cancelled, { name: 'AbortError' });
  assert.ok(performance.now() - calledOff < 20_000, 'a service that does not end has held up its build');

  // While this build runs, another looks for its service.
  const listens = service('web', {
    command: `exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:7070", Listen => 5) or die; while ($c = $s->accept) { print $c "hello\n"; close $c }'`,
    readyPort: 7070,
  });
  const asks = (host: string): string =>
    `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("${host}:7070") or print("none\n"), exit; print <$s>'`;
  const seen: string[] = [];
  const sent: Buffer[] = [];
  const link = {
    log: async ({ bytes }: { bytes: Uint8Array }) => ({ taken: sent.push(Buffer.from(bytes)) }),
    services: async () => true,
  } as unknown as Link;
  let heard = 0;
  const limit = 200_000;
  const sender = createServiceSender({
    link,
    claim: '1',
    limit,
    spillFile: (name) => join(t.name, name),
    disk: { allows: async () => true },
    signal: new AbortController().signal,
    onGone: () => {},
  });
  // The processes of both are counted together.
  const many = service('many', {
    command: 'for i in $(seq 180); do sleep 1000 & done; touch /tmp/up; wait',
    readyCommand: 'test -e /tmp/up',
  });
  const more = await build('for i in $(seq 180); do sleep 1000 & done; echo all', [many]);
  assert.doesNotMatch(more.text, /^all$/m, 'each may have as many as a build');

  // The build begins when more was read of it than its log may hold: what was not read yet fits into the pipe.
  const loud = service('loud', {
    command: 'echo Its secret is ultramarine; yes | head -c 400000; touch /tmp/loud; exec yes',
    readyCommand: 'test -e /tmp/loud',
  });
  const { text, exitStatus } = await build(`${asks('web')}; sleep 2`, [listens, loud], {
    secrets: ['ultramarine'],
    openLog(name) {
      const sink = sender.openLog(name);
      return {
        write(bytes) {
          if (name === 'loud') heard += 1;
          return sink.write(bytes);
        },
      };
    },
    print: async () => void seen.push((await sh(asks('127.0.0.1'))).text),
  });
  await sender.end();
  assert.deepEqual([exitStatus, text], [0, 'hello\n']);
  assert.deepEqual(new Set(seen), new Set(['none\n']), 'another build reaches it');
  const log = Buffer.concat(sent).toString();
  assert.match(log.slice(0, 60), /^Its secret is \[masked\]\ny\n/);
  assert.match(log.slice(-120), /y\n?\nThe log was cut here, .*\n$/);
  assert.ok(log.length <= limit, `${log.length}`);
  const most = (performance.now() - began) / 9 + limit / 1024;
  assert.ok(heard <= most, `it is read ${heard} times, and not ${most}`);
});
