import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer } from '../support/client.ts';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation } from '../support/installation.ts';
import { archiveOf, dependenciesOf } from '../support/software.ts';
import { startSwift } from '../support/swift.ts';

/** One with its blobs in a folder, the other with its blobs in S3. */
onOneDatabase((database) => {
  test('an upload goes on after the server was killed in the middle of it, and is compiled', async () => {
    const settings: Record<string, string> = {};
    if (database.kind !== 'sqlite') {
      const swift = await startSwift();
      database.afterwards(() => swift.close());
      const url = `s3://${await swift.bucket()}/blobs?endpoint=${swift.endpoint}&region=${swift.region}&path_style=true`;
      Object.assign(settings, swift.credentials, { HEADRACE_BLOB_URL: url });
    }
    const installation = await startInstallation(database, settings);
    const api = () => installation.serving().api;
    const as = installation.admin;
    const archive = await archiveOf({ noise: randomBytes(9_000_000).toString('latin1'), tool: '#!/bin/sh\n' }, 'tar');
    const made = await api().post('/dependencies', {
      as,
      form: { name: 'broken off', command: 'mkdir -p /srv/dependency && cp tool /srv/dependency' },
    });
    const dependency = made.record;
    const begun = await api().post(`/dependencies/${dependency.id}/uploads`, {
      as,
      form: { size: String(archive.length) },
    });
    const path = `/dependencies/${dependency.id}/uploads/${begun.record.id}`;
    const offset = async (): Promise<number> =>
      Number((await api().ask('HEAD', path, { as })).headers['upload-offset']);
    const type = { 'content-type': 'application/partial-upload' };
    const send = (from: number): Promise<Answer> =>
      api().ask('PATCH', path, {
        as,
        body: archive.subarray(from),
        headers: { ...type, 'upload-offset': String(from) },
      });

    // All but the last byte is on its way when the server dies, after it has kept a part.
    const headers = { ...type, 'upload-offset': '0', 'content-length': String(archive.length) };
    const [request, answer] = api().begin(path, { as, headers, method: 'PATCH' });
    request.write(archive.subarray(0, -1));
    while ((await offset()) === 0) await pause(10);
    await installation.killServer();
    await answer.catch(() => {});
    await installation.startServer();

    const arrived = await offset();
    assert.ok(arrived > 0 && arrived < archive.length, String(arrived));
    const taken = await send(arrived);
    assert.equal(taken.status, 200, taken.text);
    const compiled = await dependenciesOf(() => installation.api()).end({ id_str: String(dependency.id) });
    assert.equal(compiled.marketplace_state, 'compiled');
  });
}, 'postgres');
