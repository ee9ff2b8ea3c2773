import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { SuiteOrder } from '../../src/shared/protocol/index.ts';
import { openKeptBuilds, type KeptBuilds } from '../../src/runner/kept-builds.ts';
import type { RunFiles } from '../../src/runner/sandbox/types.ts';
import { wholeRun } from '../../src/runner/sandbox/types.ts';
import { temporaryFolder } from '../support/databases.ts';
import { open as openBench } from './sandbox/support.ts';

const secret = 'value-of-a-secret-avocet';
const order = {
  kind: 'run_suite',
  source: { projectId: '7', repositoryUrl: 'git@example.org:a/b.git' },
  environment: { TOKEN: secret },
} as unknown as SuiteOrder;
const keepFor = (hours: number, accountId = '1') => ({ hours, accountId });
const noTrees = { caches: { hold: () => undefined }, trees: { hold: () => undefined } };
const roomy = { room: async () => 10 * 1024 ** 3 };
const log = (message: string): void => assert.fail(message);

/** What a run left, without a run. */
const leaving = (text = 'left'): Pick<RunFiles, 'keepWhole'> & RunFiles =>
  ({
    keepWhole: async (directory: string) => {
      await mkdir(directory);
      writeFileSync(join(directory, 'file'), text);
    },
  }) as RunFiles;

async function opened(
  t: TestContext,
  more: Partial<Parameters<typeof openKeptBuilds>[0]> = {},
): Promise<{ folder: string; kept: KeptBuilds }> {
  const folder = join(temporaryFolder(), 'kept');
  t.after(() => rm(folder, { recursive: true, force: true }));
  return { folder, kept: await openKeptBuilds({ folder, ...noTrees, disk: roomy, log, ...more }) };
}

const keptIn = (folder: string): string[] => readdirSync(folder).filter((name) => name !== 'location');

test('what is known of a build is readable with the server’s key alone [promise: shell-secrets]', async (t) => {
  const { folder, kept } = await opened(t);
  const { name, key, location } = await kept.retain(leaving(), { order }, keepFor(24));
  assert.equal(location, kept.location);
  const place = join(folder, name);
  for (const file of readdirSync(place, { recursive: true, withFileTypes: true }))
    if (file.isFile()) assert.ok(!readFileSync(join(file.parentPath, file.name), 'latin1').includes(secret), file.name);
  using build = await kept.open(name, key);
  assert.equal(build?.order.environment.TOKEN, secret);
  assert.equal(readFileSync(join(build.files, 'file'), 'utf8'), 'left');
  await assert.rejects(kept.open(name, 'cd'.repeat(32)));
  assert.equal(await kept.open('no-such-name-here', key), undefined);
});

test('they go when their time is over, with their project, and when there are too many or no room', async (t) => {
  let room = 10 * 1024 ** 3;
  const { folder, kept } = await opened(t, { mostBuilds: 2, disk: { room: async () => room } });
  const [first, second] = [
    await kept.retain(leaving(), { order }, keepFor(1)),
    await kept.retain(leaving(), { order }, keepFor(2)),
  ];
  const third = await kept.retain(leaving(), { order }, keepFor(3));
  await kept.tidy();
  assert.deepEqual(new Set(keptIn(folder)), new Set([second.name, third.name]));
  assert.equal(await kept.open(first.name, first.key), undefined);
  // One in which somebody sits stays for them.
  {
    using _ = await kept.open(second.name, second.key);
    await kept.tidy(Date.now() + 2.5 * 3600 * 1000);
    assert.deepEqual(new Set(keptIn(folder)), new Set([second.name, third.name]));
  }
  await kept.tidy(Date.now() + 2.5 * 3600 * 1000);
  assert.deepEqual(keptIn(folder), [third.name]);
  room = 1024;
  await kept.tidy();
  assert.ok(kept.isEmpty());
  assert.deepEqual(keptIn(folder), []);
  room = 10 * 1024 ** 3;
  await kept.retain(leaving(), { order }, keepFor(1));
  assert.deepEqual(kept.projects(), ['7']);
  await kept.forget('8');
  await kept.forget('7');
  assert.deepEqual(keptIn(folder), []);
});

test('the next runner has them, and removes what a killed one was keeping or removing', async (t) => {
  const { folder, kept } = await opened(t);
  const { name, key } = await kept.retain(leaving(), { order }, keepFor(24));
  const other = await kept.retain(leaving(), { order }, keepFor(24));
  for (const half of ['making.half-of-a-name-here', 'leaving.half-of-a-name-here', 'without-any-about-here'])
    await mkdir(join(folder, half, 'files'), { recursive: true });
  // As it is after the machine was restarted: nobody knows what reached the disk.
  writeFileSync(join(folder, other.name, 'boot'), 'another');
  const next = await openKeptBuilds({ folder, ...noTrees, disk: roomy, log });
  assert.equal(next.location, kept.location);
  assert.deepEqual(keptIn(folder), [name]);
  using build = await next.open(name, key);
  assert.ok(build);
});

test('a failure to keep leaves nothing', async (t) => {
  const { folder, kept } = await opened(t, { log: () => {} });
  const broken = { keepWhole: async () => assert.fail('the disk is full') } as unknown as RunFiles;
  await assert.rejects(kept.retain(broken, { order }, keepFor(24)), /the disk is full/);
  assert.deepEqual(keptIn(folder), []);
});

test('nothing that a build leaves stops a shell or the removal [promise: shell-files]', async (t) => {
  const { sh, folder } = await openBench(t);
  const kept = await openKeptBuilds({ folder: join(folder, 'kept'), ...noTrees, disk: roomy, log });
  const nasty = [
    'i=0; d=.; while [ $i -lt 300 ]; do mkdir "$d/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" && cd "$d/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; i=$((i+1)); done; cd /build',
    'ln -s /etc/shadow shadow; ln -s / root; ln -s loop loop; mkfifo pipe',
    String.raw`touch "$(printf 'no\377text')" "$(printf 'line\nbreak')" -- -rf '$(touch x)' .hidden`,
    'mkdir closed; touch closed/in; chmod 0 closed; chmod 0 /tmp ~ /build',
    'exit 1',
  ].join('\n');
  let files: { name: string; key: string } | undefined;
  const ran = await sh(nasty, {
    workspace: { checkout: await emptyTree(folder) },
    onLeft: async (left) => {
      files = await kept.retain(left, { order }, keepFor(24));
    },
  });
  assert.equal(ran.exitStatus, 1, ran.text);
  assert.ok(files);
  {
    using build = await kept.open(files.name, files.key);
    assert.ok(build);
    const seen = await sh(
      'chmod 700 . closed; ls -A | wc -l; cat shadow; ls closed; echo mine > /tmp/mine && cat /tmp/mine',
      {
        workspace: { checkout: await emptyTree(folder), over: [join(build.files, wholeRun.workspace)] },
        home: [join(build.files, wholeRun.home)],
        tmp: [join(build.files, wholeRun.tmp)],
      },
    );
    assert.match(seen.text, /^12\n.*shadow: .*\nin\nmine\n$/);
  }
  await kept.forget('7');
  assert.deepEqual(keptIn(join(folder, 'kept')), []);
});

async function emptyTree(folder: string): Promise<string> {
  const path = join(folder, 'checkout');
  await mkdir(path, { recursive: true });
  return path;
}

test('one account’s failed builds do not push out those of others [promise: shell-share]', async (t) => {
  const { folder, kept } = await opened(t, { mostBuilds: 4 });
  const keep = (accountId: string) => kept.retain(leaving(), { order }, keepFor(24, accountId));
  const others = [await keep('1'), await keep('2')];
  const flood = [];
  for (let count = 0; count < 10; count += 1) {
    flood.push(await keep('3'));
    await kept.tidy();
  }
  const there = (): Set<string> => new Set(keptIn(folder));
  const namesOf = (some: { name: string }[]): Set<string> => new Set(some.map(({ name }) => name));
  assert.deepEqual(there(), namesOf([...others, ...flood.slice(-2)]));
  // What somebody sits in stays: then the account gives another one.
  const [, , ...last] = [...flood.slice(-2), await keep('3')];
  const [held] = flood.slice(-2);
  using _ = await kept.open(held?.name ?? '', held?.key ?? '');
  await kept.tidy();
  assert.deepEqual(there(), namesOf([...others, ...flood.slice(-2, -1), ...last]));
});
