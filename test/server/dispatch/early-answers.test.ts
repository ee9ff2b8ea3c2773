import assert from 'node:assert/strict';
import { request } from 'node:https';
import { pipeline, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { authorityOf, registered } from '../../support/registered.ts';
import { describeServiceOnOne } from '../../support/service.ts';

const megabyte = 1024 * 1024;

describeServiceOnOne('an upload that is answered before its end', (service) => {
  /** Sends all of it before it reads, as most programs do. */
  const post = async (path: string, token: string, megabytes: number): Promise<string> => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const headers = { authorization: `Bearer ${token}`, 'headrace-claim': randomName(), connection: 'close' };
    const ca = authorityOf(service);
    const sending = request(`${service.address}${path}`, { method: 'POST', headers, ca, agent: false });
    sending.on('error', (error) => resolve(String(error)));
    sending.on('response', (response) => void text(response).then((said) => resolve(`${response.statusCode} ${said}`)));
    async function* all(): AsyncGenerator<Buffer> {
      for (let sent = 0; sent < megabytes; sent += 1) yield Buffer.alloc(megabyte, 'x');
    }
    pipeline(Readable.from(all(), { objectMode: false }), sending, () => {});
    return promise;
  };

  for (const path of ['/runner/blobs', '/runner/artifacts'])
    test(`reaches its sender, also one that closes the connection: ${path} [promise: runner-blobs]`, async () => {
      const { token, link } = await registered(service);
      for (let count = 0; count < 3; count += 1) assert.equal(await post(path, token, 24), '200 {"gone":true}');
      link.close();
    });
});
