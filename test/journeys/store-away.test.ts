import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onOneDatabase } from '../support/databases.ts';
import { startFaultyProxy, type Fault, type FaultyProxy } from '../support/faulty-proxy.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { growingPauses, longestWait } from '../support/pauses.ts';
import { archiveOf, dependenciesOf } from '../support/software.ts';
import { startSwift, type Swift } from '../support/swift.ts';

/** A build is told to be over at once, and nothing of it is lost, while the store of the blobs is away. */
onOneDatabase((database) => {
  let swift: Swift;
  let proxy: FaultyProxy;
  let installation: Installation;
  let project: Project;
  before(async () => {
    swift = await startSwift();
    database.afterwards(() => swift.close());
    proxy = await startFaultyProxy(swift.endpoint);
    database.afterwards(() => proxy.close());
    const place = `s3://${await swift.bucket()}/ci?endpoint=${proxy.endpoint}&region=${swift.region}&path_style=true`;
    const settings = { HEADRACE_BLOB_URL: place, HEADRACE_CONCURRENCY: '1' };
    installation = await startInstallation(database, { ...swift.credentials, ...settings });
    project = await installation.project();
  });

  /** The store is away from the first request on for which this answers a fault; later ones are refused. */
  const goesAway = (when: (request: IncomingMessage) => Fault | undefined): void => {
    let isAway = false;
    proxy.when((request) => {
      if (isAway) return 'refused';
      const fault = when(request);
      isAway = fault !== undefined;
      return fault;
    });
  };
  const isAway = (): void => goesAway(() => 'refused');
  const isBack = (): void => proxy.when(() => undefined);

  /** Large enough for several parts, small enough for one, and a cache. */
  const command =
    'mkdir -p out deps; head -c 9000000 /dev/urandom >out/large; date +%N >out/small; date +%N >deps/d; sha256sum out/*';
  let last: Build | undefined;
  const lookAt = ({ id_str: id }: Item): Promise<Build> => project.api().get(`${project.path}/builds/${id}`);
  /** Makes another attempt at the same suite, with or without its cache, and waits until it is over. */
  const runBuild = async ({ deletesCaches = true } = {}): Promise<Build> => {
    if (deletesCaches) await project.api().delete(`${project.path}/caches`);
    if (!last) {
      const form = { name: 'leaves', command, 'artifacts[]': 'out', 'cache[]': 'deps' };
      await project.api().post(`${project.path}/suites`, form);
      await project.ask('main');
      while (!last) [last] = await project.api().get<Build[]>(`${project.path}/builds`);
    } else last = (await project.api().post(`${project.path}/builds/${last.id_str}/restart`)) as Build;
    assert.ok(last);
    const wait = growingPauses();
    for (const startedAt = Date.now(); ; await wait()) {
      last = await lookAt(last);
      if (last.finished_at !== null) return last;
      assert.ok(Date.now() - startedAt < longestWait, `the build is ${last.build_state} for ever`);
    }
  };
  const untilArrived = async (build: Item): Promise<void> => {
    while ((await lookAt(build)).uploads_pending === true) await pause(100);
    assert.equal((await lookAt(build)).uploads_lost, '');
  };
  /** Everything that the build left is there, byte for byte, and its log says nothing else. */
  const assertWhole = async (build: Build): Promise<void> => {
    const artifacts = `${project.path}/builds/${build.id_str}/artifacts`;
    const kept = await project.api().get<Item[]>(artifacts);
    const said = Object.fromEntries(
      Array.from((await project.log(build)).matchAll(/^([0-9a-f]{64}) {2}(out\/\w+)$/gm), ([, sum, path]) => [
        path,
        sum,
      ]),
    );
    assert.deepEqual(Object.fromEntries(kept.map(({ path, sha256 }) => [path, sha256])), said);
    for (const { id_str: id, sha256 } of kept) {
      const bytes = await project.api().bytes(`${artifacts}/${id}`);
      assert.equal(createHash('sha256').update(bytes).digest('hex'), sha256);
    }
    const caches = await project.api().get<Item[]>(`${project.path}/caches`);
    assert.ok(caches.some(({ suite_id_str: id }) => id === build.suite_id_str));
  };
  const outbox = (): string[] => {
    const folder = join(installation.folder, 'runner', 'outbox');
    return existsSync(folder) ? readdirSync(folder) : [];
  };
  /** The runner removes what has arrived a moment after the server knows that it has. */
  const untilOutboxEmpty = async (): Promise<void> => {
    for (const startedAt = Date.now(); outbox().length > 0; await pause(50))
      assert.ok(Date.now() - startedAt < longestWait, `the outbox keeps ${outbox().join(', ')}`);
  };

  test('a build is over at once, others go on, and what it left arrives when the store is back', async () => {
    isAway();
    const build = await runBuild();
    assert.deepEqual([build.build_state, build.uploads_pending], ['passed', true]);
    assert.match(
      await project.log(build),
      /Artifacts: 2 files \(.*\) wait on the runner, because the server cannot store them now\.\n.*The cache waits on the runner/s,
    );
    const other = await runBuild();
    assert.deepEqual([other.build_state, other.uploads_pending], ['passed', true]);
    const page = await installation.ask(`/projects/${project.id_str}/builds/${build.id_str}/artifacts`);
    assert.deepEqual(JSON.parse(page.text).response, []);
    isBack();
    for (const one of [build, other]) {
      await untilArrived(one);
      await assertWhole(one);
    }
    await untilOutboxEmpty();
    const restored = await runBuild({ deletesCaches: false });
    assert.match(await project.log(restored), /Restored the cache of main/);
    assert.deepEqual([restored.build_state, restored.uploads_pending], ['passed', false]);
    await assertWhole(restored);
  });

  const puts = ({ method, headers }: IncomingMessage): boolean =>
    method === 'PUT' && headers['x-amz-copy-source'] === undefined;
  const isBlob = ({ url = '' }: IncomingMessage): boolean => /\/ci\/[0-9a-f]{2}\/[0-9a-f]{64}/.test(url);
  const isSmall = (request: IncomingMessage): boolean =>
    puts(request) && isBlob(request) && Number(request.headers['content-length']) < 1_000_000;
  const nth = (count: number, which: (request: IncomingMessage) => boolean) => {
    let seen = 0;
    return (request: IncomingMessage): boolean => which(request) && ++seen === count;
  };
  /** From the first byte to the last, in the order in which they come. */
  const moments: Record<string, () => (request: IncomingMessage) => Fault | undefined> = {
    'before an upload in parts':
      () =>
      ({ url = '' }) =>
        url.endsWith('?uploads=') ? 'refused' : undefined,
    'in the middle of a part': () => (request) =>
      request.url?.includes('partNumber=1') ? { cutRequestAfter: 1_000_000 } : undefined,
    'between two parts':
      () =>
      ({ url = '' }) =>
        url.includes('partNumber=2') ? 'refused' : undefined,
    'at the completion of an upload':
      () =>
      ({ method, url = '' }) =>
        method === 'POST' && url.includes('uploadId=') ? 'refused' : undefined,
    'when the completion is done and not answered':
      () =>
      ({ method, url = '' }) =>
        method === 'POST' && url.includes('uploadId=') ? { cutAnswerAfter: 0 } : undefined,
    'at the copy to its name':
      () =>
      ({ headers }) =>
        headers['x-amz-copy-source'] === undefined ? undefined : { cutAnswerAfter: 0 },
    'in the middle of a small file': () => {
      const is = nth(1, isSmall);
      return (request) => (is(request) ? { cutRequestAfter: 3 } : undefined);
    },
    'between the artifacts and the cache': () => {
      const is = nth(2, isSmall);
      return (request) => (is(request) ? 'refused' : undefined);
    },
  };
  for (const [moment, when] of Object.entries(moments)) {
    test(`nothing is lost where the store goes away ${moment}`, async () => {
      goesAway(when());
      const build = await runBuild();
      assert.deepEqual([build.build_state, build.uploads_pending], ['passed', true]);
      isBack();
      await untilArrived(build);
      await assertWhole(build);
      await untilOutboxEmpty();
    });
  }

  test('what waits outlives the server and the runner, killed at once and while it is brought', async () => {
    isAway();
    const build = await runBuild();
    assert.equal(build.uploads_pending, true);
    await installation.killServer();
    await installation.killRunner();
    await installation.startServer();
    assert.deepEqual([(await lookAt(build)).build_state, (await lookAt(build)).uploads_pending], ['passed', true]);
    const reached = Promise.withResolvers<void>();
    proxy.when(({ url = '' }) => {
      if (!url.includes('partNumber=')) return undefined;
      reached.resolve();
      return 'hangs';
    });
    await reached.promise;
    await installation.killRunner();
    await installation.killServer();
    await installation.startServer();
    isBack();
    await untilArrived(build);
    await assertWhole(build);
    await untilOutboxEmpty();
  });

  // It takes its time, and has nothing to do with the database.
  const once = { skip: database.kind === 'postgres' && 'done with the other database' };
  test('a store that takes requests and never answers is away too', once, async () => {
    proxy.when(() => 'hangs');
    const build = await runBuild();
    assert.deepEqual([build.build_state, build.uploads_pending], ['passed', true]);
    isBack();
    await untilArrived(build);
    await assertWhole(build);
  });

  test('a build without its software and a compile hold no place, and go on when the store is back', async (t) => {
    const software = dependenciesOf(() => installation.api());
    const archive = await archiveOf({ tool: '#!/bin/sh\necho from the tool\n' }, 'tar');
    const told = 'Blob storage is unreachable. The job continues when it is reachable.\n';
    const prefix = '/srv/tool';
    const command = 'chmod 755 tool; mkdir /srv/tool/bin && cp tool /srv/tool/bin';
    const tool = await software.compile({ name: 'tool', command, prefix }, archive);
    assert.equal(tool.marketplace_state, 'compiled', await software.log(tool));
    const other = await software.describe({ name: 'other', command, prefix });
    const uses = await installation.project('uses');
    const suite = await uses.suite(t, 'uses', 'tool');
    await uses.attach(suite, tool);
    // Everything can be stored, and nothing be fetched.
    proxy.when(({ method }) => (method === 'GET' ? 'refused' : undefined));
    await uses.ask('main');
    await software.upload(other, archive);
    await uses.untilLogged(suite, /is unreachable/);
    while ((await software.log(other)) !== told) await pause(100);
    const [build] = await uses.api().get<Build[]>(`${uses.path}/builds`);
    assert.ok(build);
    assert.deepEqual([build.build_state, await uses.log(build)], ['running', told]);
    assert.equal(build.waiting_reason, 'waits for blob storage, which is unreachable');
    assert.equal((await runBuild()).build_state, 'passed', 'it has the only place');
    isBack();
    assert.equal((await software.end(other)).marketplace_state, 'compiled');
    while ((await uses.api().get<Build>(`${uses.path}/builds/${build.id_str}`)).finished_at === null) await pause(100);
    assert.equal(await uses.log(build), `${told}from the tool\n`);
  });

  test('what waits of a deleted project goes', async () => {
    const doomed = await installation.project('doomed');
    await doomed.api().post(`${doomed.path}/suites`, { name: 'leaves', command, 'artifacts[]': 'out' });
    isAway();
    await doomed.build('main');
    assert.equal(outbox().length, 1);
    await doomed.api().delete(doomed.path);
    while (outbox().length > 0) await pause(100);
    isBack();
  });
});
