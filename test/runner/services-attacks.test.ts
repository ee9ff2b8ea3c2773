import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { Link, ServiceOrder } from '../../src/shared/protocol/index.ts';
import { openCacheStore } from '../../src/runner/cache-store.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { CannotRunError } from '../../src/runner/cannot-run.ts';
import { createServiceSender } from '../../src/runner/services/service-sender.ts';
import {
  openSuiteServices,
  type ServicesOptions,
  type SuiteServices,
} from '../../src/runner/services/suite-services.ts';
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
  const caches = await openCacheStore({
    folder: join(folder, 'data'),
    link: { read: () => assert.fail('no server has the data of services') },
    sandboxes,
    disk: { room: async () => 2 ** 40 },
    log,
  });
  const store = { ...caches, key: 'of this runner alone', deaf: new Set<string>() };
  const mark = `mark-${Math.random()}`;
  const means = {
    sandboxes,
    dependencyCache: { take: async () => ({ mounts: [], directoriesAt: () => [], [Symbol.dispose]: () => {} }) },
    operatorVariables: () => ({ TEST_MARK: mark }),
    scratch: folder,
    serviceData: store,
    log,
  } as unknown as RunnerDeps;
  /** A build with these services, as the runner runs it. */
  const build = async (
    command: string,
    orders: ServiceOrder[],
    options: Partial<ServicesOptions> & { environment?: Record<string, string>; parts?: object } = {},
  ): Promise<Ran & { said: string; data: SuiteServices['data'] }> => {
    let said = '';
    const { environment = {}, parts = {} } = options;
    const { signal = new AbortController().signal } = options;
    await using services = await openSuiteServices(means, {
      orders,
      takeImage: () => assert.fail('none has an image'),
      project: '7',
      hadSecrets: false,
      limits: usualLimits,
      secrets: [],
      openLog: () => ({ write: (bytes) => void (said += bytes.toString()) }),
      print: async () => {},
      signal,
      ...options,
    });
    const filling = { parts, checkout, over: {} };
    const job = { environment, workspace: { checkout }, mounts: services.mounts, limits: usualLimits };
    try {
      const ended = await sh(command, {
        ...job,
        before: (around) => services.start(around, { ...job, filling }),
        onOver: services.over,
        signal: AbortSignal.any([signal, services.signal]),
      });
      const died = services.failure();
      if (died) throw died;
      return { ...ended, said, data: services.data };
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
    prepareInputs: ['file'],
    data: ['/home/build/d/kept', '/home/build/linked', '/home/build/own', '/tmp/way/kept'],
    saves: true,
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

/** What a build has left, as its server names it to later ones. */
const named = (data: SuiteServices['data']) =>
  Object.values(data).map(({ name, digest }) => ({ name, digest, build: '17', madeAt: Date.UTC(2030, 0, 2, 3, 4, 5) }));
const keepsData = (more: Partial<ServiceOrder> = {}): ServiceOrder =>
  service('db', {
    command: `cat ~/data/made 2>/dev/null || :; mkdir -p ~/data; trap 'exit 0' TERM; touch /tmp/up; sleep 1000 & wait`,
    readyCommand: 'test -e /tmp/up',
    prepare: 'echo filling',
    prepareInputs: ['file'],
    data: ['/home/build/data'],
    saves: true,
    ...more,
  });
const made = 'filling\n\nThis build prepares its data and stores them for later builds.\n';

test('data are for builds that would make the same alone, whatever they are told of [promise: service-data]', async (t) => {
  const { build, folder } = await stage(t);
  const first = await build('true', [keepsData()], { environment: { SEED: 'main' } });
  assert.equal(first.said, made);
  const kept = named(first.data);
  assert.equal(kept.length, 1);
  const again = await build('true', [keepsData({ kept })], { environment: { SEED: 'main', HEADRACE_BUILD_ID: '18' } });
  assert.equal(again.said, 'Its data are stored since 2030-01-02T03:04:05.000Z, from build 17.\n');
  assert.deepEqual(again.data['db'], { ...first.data['db'], bytes: 0, isMade: false });
  // A request's variable, a fork's lack of variables, another image, another command: all would make something else.
  const others: [string, ServiceOrder, Parameters<typeof build>[2]][] = [
    ['a variable of the build', keepsData({ kept }), { environment: { SEED: 'evil' } }],
    ['one more', keepsData({ kept }), { environment: { SEED: 'main', BASH_ENV: '/build/evil' } }],
    ['none', keepsData({ kept }), {}],
    ['the parts of the build', keepsData({ kept }), { environment: { SEED: 'main' }, parts: { image: 'other' } }],
    [
      'a variable of the service',
      keepsData({ kept, environment: { SEED: 'evil' } }),
      { environment: { SEED: 'main' } },
    ],
    ['what fills it', keepsData({ kept, prepare: 'echo filling;' }), { environment: { SEED: 'main' } }],
    ['its name', keepsData({ kept, name: 'other' }), { environment: { SEED: 'main' } }],
  ];
  for (const [what, order, options] of others) assert.equal((await build('true', [order], options)).said, made, what);
  // Of two that are made of the same, each has its own.
  const twin = await build('true', [keepsData()], { environment: { SEED: 'main' } });
  assert.notEqual(twin.data['db']?.name, first.data['db']?.name);
  assert.equal(twin.data['db']?.digest, first.data['db']?.digest);
  // A file that the globs name.
  await writeFile(join(folder, 'checkout', 'file'), 'changed');
  assert.equal((await build('true', [keepsData({ kept })], { environment: { SEED: 'main' } })).said, made);
});

test('a build that may write none leaves none, and a shell has those of its build [promise: service-data]', async (t) => {
  const { build } = await stage(t);
  const fork = await build('true', [keepsData({ saves: false })]);
  assert.deepEqual([fork.said, fork.data], ['filling\n', {}]);
  const { data } = await build('true', [keepsData()]);
  const read = await build('true', [keepsData({ saves: false, kept: named(data) })]);
  assert.match(read.said, /^Its data are stored since .*\n$/);
  assert.equal((await build('true', [keepsData()], { again: data })).said, '');
  const shell = await build('true', [keepsData({ kept: named(data) })], { again: {} });
  assert.deepEqual([shell.said, shell.data], ['filling\n', {}], 'no others');
});

test('without patterns data are for the same tree alone, and what is not there is told', async (t) => {
  const { build, folder } = await stage(t);
  const checkout = join(folder, 'checkout');
  const as = ['user.name=a', 'user.email=a@example.org', `safe.directory=${checkout}`].flatMap((set) => ['-c', set]);
  const git = (...args: string[]): Buffer => execFileSync('git', ['-C', checkout, ...as, ...args]);
  const tell: string[] = [];
  const options = { print: async (text: string) => void (text.includes('ready') || tell.push(text)) };
  const whole = (more: Partial<ServiceOrder> = {}) =>
    keepsData({ prepareInputs: [], data: ['/home/build/data', '/home/build/none', '/home/build/data/made'], ...more });
  assert.match(
    (await build('true', [whole()])).said,
    /^This build prepares its data. They are not stored: the commit's tree/,
  );
  git('init', '--quiet');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'one');
  const { said, data } = await build('true', [whole()], options);
  assert.equal(said, made);
  assert.deepEqual(tell, [
    'The service db has no directory /home/build/none, /home/build/data/made: nothing of it is stored.\n',
  ]);
  const kept = named(data);
  git('commit', '--quiet', '--allow-empty', '--message', 'two');
  assert.match(
    (await build('true', [whole({ kept })])).said,
    /^Its data are stored/,
    'another commit with the same files',
  );
  await writeFile(join(checkout, 'more'), '');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'three');
  assert.equal((await build('true', [whole({ kept })])).said, made);
  tell.length = 0;
  await build('true', [keepsData({ prepareInputs: ['file', 'nothing/**', '*.sql'] })], options);
  assert.deepEqual(tell, ['prepare_inputs of the service db match no file: nothing/**, *.sql\n']);
});

test('a service that does not end when it is asked to is filled once, and not asked again', async (t) => {
  const { build } = await stage(t);
  const order = keepsData({
    command: `trap '' TERM; echo $$ > ~/number; touch /tmp/up; while :; do sleep 1000 & wait; done`,
    name: 'deaf',
  });
  for (const isFirst of [true, false]) {
    const began = performance.now();
    const { said, exitStatus, data } = await build('true', [order]);
    assert.equal(exitStatus, 0);
    assert.match(
      said,
      /^filling\n\nThis build prepares its data. They are not stored: it does not end within 30 seconds .*\n$/,
    );
    assert.deepEqual(data, {});
    assert.equal(performance.now() - began > 30_000, isFirst, 'the first time it is waited for');
  }
});

const hasty = (order: Partial<ServiceOrder>) =>
  service('db', { command: 'exec sleep 1000', readyTimeoutSeconds: 2, ...order });

test('what the last try of ready_command printed says why a service is not ready, within bounds', async (t) => {
  const { build } = await stage(t);
  const secrets = ['ultramarine'];
  const failure = async (order: Partial<ServiceOrder>): Promise<string> => {
    const failed = await build('true', [hasty(order)], { secrets }).catch((error: unknown) => error);
    assert.ok(failed instanceof CannotRunError, String(failed));
    return failed.message;
  };
  const late = 'The service db was not ready within 2 seconds';
  // Of all tries, the last one; also of what another program prints for it, and through the name of its output.
  const refused =
    'n=$(cat ~/n 2>/dev/null || echo 0); echo $((n + 1)) >~/n; echo "try $n"; ' +
    'sh -c "echo not as ultramarine >/dev/stderr"; exit 3';
  assert.match(
    await failure({ readyCommand: refused, readyPort: 7 }),
    new RegExp(
      `^${late}: it does not listen at port 7, and ready_command ended with status 3\\. It printed nothing\\.\n` +
        'The last lines of ready_command:\ntry [1-9]\\d*\nnot as \\[masked\\]$',
    ),
  );
  const listens =
    'echo up; exec perl -MIO::Socket::INET -e \'$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:7072", Listen => 5) or die; sleep 1000\'';
  assert.equal(
    await failure({ command: listens, readyCommand: 'false', readyPort: 7072 }),
    `${late}: it listens at port 7072, and ready_command ended with status 1. Its last lines:\nup\nready_command printed nothing.`,
  );
  assert.equal(
    await failure({ readyCommand: 'echo asking; sleep 1000' }),
    `${late}: ready_command did not end. It printed nothing.\nThe last lines of ready_command:\nasking`,
  );
  // What prints without end fills neither memory nor a log, and is not read as fast as it can print.
  const printing =
    `exec perl -e 'while (1) { $n += syswrite STDOUT, "y" x 999 . "\\n"; ` +
    `next if $n % 64000; open F, ">", "/tmp/n.new"; print F "$n\\n"; close F; rename "/tmp/n.new", "/tmp/n" }'`;
  const began = performance.now();
  const said = await failure({
    command: 'while :; do cat /tmp/n 2>/dev/null || :; sleep 0.1; done',
    readyCommand: printing,
  });
  const [first = '', last = ''] = said.split('\nThe last lines of ready_command:\n');
  assert.match(last, /^y*(\ny+)*$/);
  assert.ok(last.length > 1000 && last.length <= 50_000, `${last.length}`);
  const printed = Math.max(...first.split('\n').slice(1).map(Number));
  const most = 2 ** 21 + ((performance.now() - began) / 9) * 2 ** 17; // what is read between two pauses
  assert.ok(printed > 0 && printed < most, `it has printed ${printed}, and not at most ${most}`);
});

test('a service is ready however much its ready_command prints, and whatever that leaves', async (t) => {
  const { build } = await stage(t);
  const most = longestWait / 1000;
  const long = hasty({ readyCommand: 'head -c 3000000 /dev/zero', readyTimeoutSeconds: most });
  assert.equal((await build('true', [long])).exitStatus, 0);
  // Daemons hold the output of each try: one that is quiet, and one that prints without end.
  const daemons = 'setsid sleep 1000 & setsid yes & test -e ~/second && exit 0; touch ~/second; false';
  const left = hasty({ readyCommand: daemons, readyTimeoutSeconds: most });
  const { exitStatus, said } = await build('true', [left]);
  assert.deepEqual([exitStatus, said], [0, ''], 'what a try prints is not said by the service');
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
      prepareInputs: ['file'],
      data: ['/home/build/data'],
      saves: true,
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
    onLost: () => {},
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

test('it sees neither the environment nor the files of its build, nor what its steps keep secret [promise: service-isolation]', async (t) => {
  const { build } = await stage(t);
  // It looks when it is called, so the build is certain to be under way.
  const look =
    'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/root/tmp/* /tmp/* /build/* "$HOME"/* 2>/dev/null; ' +
    'for one in /proc/[0-9]*; do ls -l $one/fd $one/cwd/; done 2>/dev/null; echo; echo looked';
  const spy = service('spy', {
    command: `exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:7071", Listen => 5) or die; while ($c = $s->accept) { open my $o, "-|", "sh", "-c", $ENV{LOOK}; print $c $_ while <$o>; close $c }'`,
    environment: { LOOK: look },
    readyPort: 7071,
  });
  const ask =
    'perl -MIO::Socket::INET -e \'$s = IO::Socket::INET->new("127.0.0.1:7071") or die; @all = <$s>; ' +
    '$found = grep { /kitti[w]ake/ } @all; print "found $found, $all[-1]"\'';
  const secret = '$(printf kitti; printf wake)';
  const hides = `for at in /tmp "$HOME" .; do echo ${secret} > "$at/kept"; done`;
  const { text } = await build(`${hides}; env SECRET=${secret} ${ask}`, [spy]);
  assert.match(text, /^found 0, looked$/m);
});
