import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { openDatabase } from '../../src/server/db/open.ts';
import { blobColumns } from '../../src/server/db/schema.ts';
import { onOneDatabase } from '../support/databases.ts';
import { startFaultyProxy, type FaultyProxy } from '../support/faulty-proxy.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { archiveOf, dependenciesOf } from '../support/software.ts';
import { startSwift, type Swift } from '../support/swift.ts';

/** The whole program with its blobs in S3, where many machines would share them: on PostgreSQL. */
onOneDatabase((database) => {
  if (database.kind === 'sqlite') return;
  let swift: Swift;
  let proxy: FaultyProxy;
  let bucket: string;
  let installation: Installation;
  let env: Record<string, string>;
  before(async () => {
    swift = await startSwift();
    database.afterwards(() => swift.close());
    proxy = await startFaultyProxy(swift.endpoint);
    database.afterwards(() => proxy.close());
    bucket = await swift.bucket();
    const url = `s3://${bucket}/ci/blobs?endpoint=${proxy.endpoint}&region=${swift.region}&path_style=true`;
    env = { ...swift.credentials, HEADRACE_BLOB_URL: url };
    installation = await startInstallation(database, env);
  });

  const referredTo = async (): Promise<{ digests: string[]; unpacked: number }> => {
    const db = await openDatabase({ url: installation.env.HEADRACE_DATABASE_URL ?? '' });
    try {
      const digests = new Set<string>();
      for (const { table, column } of blobColumns) {
        const found = sql<{ digest: string }>`select ${sql.ref(column)} as digest from ${sql.table(table)}`;
        for (const { digest } of (await found.execute(db.read)).rows) if (digest !== null) digests.add(digest);
      }
      const packing = db.read.selectFrom('jobs').select('id').where('kind', '=', 'pack_log');
      return { digests: [...digests].toSorted(), unpacked: (await packing.execute()).length };
    } finally {
      await db.close();
    }
  };

  test('software is compiled and used, and logs are packed and read, across an outage, a kill and a restart', async (t) => {
    const dependencies = dependenciesOf(() => installation.api());
    const project = await installation.project();
    const noise = randomBytes(6_000_000).toString('latin1');
    const tool = '#!/bin/sh\nwc -c < /srv/tool/noise\n';
    const command = 'mkdir -p /srv/tool/bin && cp tool /srv/tool/bin && cp noise /srv/tool';
    const archive = await archiveOf({ tool, noise }, 'tar');
    const compiled = await dependencies.compile({ name: 'tool', command, prefix: '/srv/tool' }, archive);
    assert.equal(compiled.marketplace_state, 'compiled', await dependencies.log(compiled));

    // The server dies in the middle of storing an archive: what it left is not taken for a blob.
    const doomed = await dependencies.describe({
      name: 'doomed',
      command: 'make install PREFIX=/srv/doomed',
      prefix: '/srv/doomed',
    });
    let parts = 0;
    const reached = Promise.withResolvers<void>();
    proxy.when(({ url = '' }) => {
      if (!url.includes('partNumber=')) return undefined;
      if ((parts += 1) > 1) reached.resolve();
      return 'hangs';
    });
    const large = Buffer.concat([archive, archive, archive]);
    const uploading = dependencies.upload(doomed, large).catch(() => 'broken off');
    await reached.promise;
    await installation.killServer();
    assert.equal(await uploading, 'broken off');
    proxy.when(() => undefined);
    assert.equal((await swift.uploads(bucket)).length, 1);
    await installation.startServer();

    const lines = 60_000;
    const suite = await project.suite(
      t,
      'uses',
      `tool && for i in $(seq 1 ${lines}); do echo "line $i of the log"; done`,
    );
    await project.attach(suite, compiled);
    const buildOf = async (message: string) => {
      await project.repository.commit({ message });
      await project.build('main');
      const [commit] = await project.commits();
      return (await project.builds(commit)).find(({ suite_id_str: id }) => id === suite);
    };
    const expected = `${Buffer.byteLength(noise)}\n${Array.from({ length: lines }, (_, at) => `line ${at + 1} of the log\n`).join('')}`;
    const first = await buildOf('Begin');
    assert.equal(first?.build_state, 'passed');
    assert.ok((await project.log(first)) === expected);

    // While S3 is away, builds go on with the software that the runner has, and their logs can be read.
    proxy.when(() => ({ status: 503 }));
    const second = await buildOf('Go on');
    assert.equal(second?.build_state, 'passed');
    assert.ok((await project.log(second)) === expected);
    // A server believes for some seconds that all is well, unless it has a blob to store meanwhile.
    while ((await installation.serving().api.get('/healthz')).status !== 503) await pause(200);
    proxy.when(() => undefined);

    // Everything is packed in the end, and the bucket has what is referred to, each once.
    const digestsIn = async (): Promise<string[]> =>
      (await swift.keys(bucket)).map((key) => {
        assert.match(key, /^ci\/blobs\/[0-9a-f]{2}\/[0-9a-f]{64}$/);
        return key.slice(-64);
      });
    while ((await referredTo()).unpacked > 0) await pause(200);
    const { digests } = await referredTo();
    assert.deepEqual((await digestsIn()).toSorted(), digests);
    for (const build of [first, second]) assert.ok((await project.log(build)) === expected, 'byte for byte, from S3');
    const path = `${project.path}/builds/${first?.id_str}/log.txt`;
    const part = await installation
      .serving()
      .api.get(path, { as: installation.admin, headers: { range: 'bytes=500000-500099' } });
    assert.deepEqual([part.status, part.text], [206, expected.slice(500_000, 500_100)]);
    assert.ok(
      proxy.seen.some((request) => request.includes('X-Amz-Signature=')),
      'the runner fetched from S3 itself',
    );
    const said = installation.serving().log() + readFileSync(join(installation.folder, 'runner.log'), 'utf8');
    assert.doesNotMatch(said, /Signature=|secret-of-the-writer/);
  });
});
