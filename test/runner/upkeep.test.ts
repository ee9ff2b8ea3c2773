import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Link } from '../../src/shared/protocol/index.ts';
import { openMirrors } from '../../src/runner/git/mirrors.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import { startRunner } from '../../src/runner/runner.ts';
import { forgetProjects, tidyMirrors } from '../../src/runner/upkeep.ts';
import { openRunnerDeps } from '../../src/runner/runner-deps.ts';
import { noShells } from '../support/no-shells.ts';

const day = 24 * 3600 * 1000;

/** A mirror as a runner leaves it, last used so many days ago. */
async function leaveMirror(git: string, name: string, days: number): Promise<string> {
  const folder = join(git, 'mirrors', name, 'mirror');
  await mkdir(join(folder, 'repository.git'), { recursive: true });
  const lock = join(folder, 'lock');
  await writeFile(lock, '');
  const lastUse = new Date(Date.now() - days * day);
  await utimes(lock, lastUse, lastUse);
  return folder;
}

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'upkeep-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test('a runner without work removes the mirrors that nobody used for a month', async (t) => {
  const folder = await folderFor(t);
  const [old, recent] = [
    await leaveMirror(join(folder, 'git'), 'old', 31),
    await leaveMirror(join(folder, 'git'), 'recent', 29),
  ];
  const said: string[] = [];
  const noWork: Link = {
    next: async (_, signal) => void (await once(signal, 'abort').catch(() => {})),
    log: () => assert.fail('there is nothing to say'),
    steps: () => assert.fail('there are no steps'),
    stepPoint: () => assert.fail('no build goes on'),
    services: () => assert.fail('there are no services'),
    tests: () => assert.fail('there are no tests'),
    summary: () => assert.fail('there is no summary'),
    extend: () => assert.fail('there is nothing to keep'),
    finish: () => assert.fail('there is nothing to finish'),
    read: () => assert.fail('there is nothing to read'),
    store: () => assert.fail('there is nothing to store'),
    storeFiles: () => assert.fail('there is nothing to keep'),
    access: () => assert.fail('there is nothing to open'),
    leave: async () => {},
    registry: () => assert.fail('there is nothing to open'),
    gone: async () => [],
    stale: async () => [],
    polls: async () => [],
    ...noShells,
    uploaded: () => assert.fail('nothing waits'),
    polled: () => assert.fail('there is nothing to tell'),
  };
  const log = (message: string): void => void said.push(message);
  const deps = await openRunnerDeps({
    folder,
    concurrency: 1,
    network: 'none',
    isolation: 'off',
    link: noWork,
    dependencyCacheBytes: 0,
    imageBytes: 1,
    imageCacheBytes: 0,
    fetchTimeoutMs: 60_000,
    checkoutBytes: 1024 ** 3,
    log,
  });
  const runner = await startRunner({ link: noWork, folder, deps, concurrency: 1, log, upkeepEveryMs: 5 });
  while (existsSync(old)) await pause(5);
  assert.ok(existsSync(recent));
  await runner.stop();
  assert.ok(!said.some((message) => message.includes('tidied')), said.join('\n'));
});

test('mirrors are not tidied while there is work', async (t) => {
  const folder = await folderFor(t);
  const old = await leaveMirror(folder, 'old', 31);
  const sandboxes = await openSandboxes({
    stateDir: join(folder, 'sandboxes'),
    network: 'none',
    isolation: 'off',
    log: () => {},
  });
  const mirrors = await openMirrors({ dir: folder, sandboxes, isolation: 'off' });
  const ending = new AbortController();
  let looks = 0;
  const isBusy = (): boolean => {
    assert.ok(existsSync(old), 'it was tidied in spite of the work');
    looks += 1;
    return looks <= 3;
  };
  const { signal } = ending;
  const tidying = tidyMirrors(mirrors, { isBusy, signal, log: assert.fail, everyMs: 1 });
  while (existsSync(old)) await pause(5);
  assert.equal(looks, 4);
  ending.abort();
  await tidying;
  await mirrors.close();
  await sandboxes.close();
});

test('data of deleted projects goes, however large the identifier of the project is', async () => {
  const ending = new AbortController();
  const project = String(2n ** 63n - 1n);
  const forgotten: string[] = [];
  const place = {
    projects: () => [project, '007', 'lost+found'],
    async forget(name: string) {
      forgotten.push(name);
      ending.abort();
    },
  };
  const mirrors = { ...place, projects: async () => [] };
  const link = { gone: async ({ projects }: { projects: string[] }) => projects };
  const places = { mirrors, checkouts: place, caches: place, trees: place, outbox: place };
  const { signal } = ending;
  await forgetProjects(link, places, { isBusy: () => false, signal, log: assert.fail, everyMs: 1 });
  assert.deepEqual([...new Set(forgotten)], [project]);
});
