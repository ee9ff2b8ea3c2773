import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { encodingFor } from '../../../src/server/http/compression.ts';
import type { Answer } from '../../support/client.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { freshName, type User } from '../../support/user.ts';

const unpack = { zstd: zstdDecompressSync, br: brotliDecompressSync, gzip: gunzipSync };

describe('the compression of an answer', () => {
  test('is what the caller likes best', () => {
    const cases: [string | undefined, string | undefined][] = [
      [undefined, undefined],
      ['', undefined],
      ['identity', undefined],
      ['deflate', undefined],
      ['gzip', 'gzip'],
      ['gzip, deflate, br', 'br'],
      ['gzip, deflate, br, zstd', 'zstd'],
      ['GZIP;q=0.8, br; q=0.2', 'gzip'],
      ['zstd;q=0, br;q=0, gzip;q=0', undefined],
      ['zstd;q=0, *', 'br'],
      ['*;q=0', undefined],
      ['br;q=nonsense, gzip;q=0.1', 'gzip'],
    ];
    for (const [accepted, expected] of cases) assert.equal(encodingFor(accepted), expected, accepted);
  });
});

describeWithRunnerOnOne('a long answer', (service, runner) => {
  let alice: User;
  let path: string;
  before(async () => {
    alice = await service.user();
    path = `/projects/${(await alice.createProject()).id}/suites`;
    for (let made = 0; made < 10; made += 1) {
      await alice.post(path, { name: freshName('suite'), command: 'grüße', description: 'x'.repeat(300) });
    }
  });

  const get = (url: string, encoding?: string, headers: Record<string, string> = {}): Promise<Answer> =>
    service.api.get(url, {
      as: alice.credentials,
      headers: { ...(encoding === undefined ? {} : { 'accept-encoding': encoding }), ...headers },
    });

  test('is packed for who can unpack it, and the same in every way', async () => {
    for (const url of [path, `${path}?callback=f`, '/openapi.json']) {
      const plain = await get(url);
      assert.equal(plain.headers['content-encoding'], undefined);
      for (const [encoding, unpacked] of Object.entries(unpack)) {
        for (let round = 0; round < 2; round += 1) {
          const packed = await get(url, encoding);
          assert.deepEqual([packed.headers['content-encoding'], packed.headers.vary], [encoding, 'accept-encoding']);
          assert.equal(packed.headers['content-type'], plain.headers['content-type']);
          assert.equal(unpacked(packed.bytes).toString(), plain.text);
          assert.ok(packed.bytes.length < plain.bytes.length / 2);
        }
      }
      assert.equal((await get(url, 'br;q=0')).text, plain.text);
    }
  });

  test('is as it is where it is short, made by a change, or holds a secret', async () => {
    const suite = (await alice.get(path)).list[0];
    const variables = `${path}/${suite?.id}/environment_variables`;
    for (const name of ['ONE', 'TWO']) await alice.post(variables, { name, content: 'secret '.repeat(400) });
    const made = await service.api.post(path, {
      as: alice.credentials,
      form: { name: freshName('suite'), command: 'x', description: 'x'.repeat(5000) },
      headers: { 'accept-encoding': 'gzip' },
    });
    assert.ok(made.text.length > 5000);
    const answers = [await get('/whoami', 'gzip'), await get(variables, 'zstd, br, gzip'), made];
    for (const { headers, body } of answers) {
      assert.equal(headers['content-encoding'], undefined);
      assert.ok(body.response);
    }
    const page = await service.api.get('/ui/sign-in', { headers: { 'accept-encoding': 'zstd, br, gzip' } });
    assert.deepEqual([page.status, page.headers['content-encoding']], [200, undefined]);
  });

  test('that is a log is packed whole, and not where a part of it is asked for or it is followed', async () => {
    const build = await runningBuild(alice, runner);
    const said = 'all tests passed €\n'.repeat(20_000);
    for (let at = 0; at < said.length; at += 100_000) await build.task.writeLog(said.slice(at, at + 100_000));
    const check = async (): Promise<void> => {
      for (const [encoding, unpacked] of Object.entries(unpack)) {
        const packed = await get(`${build.path}/log.txt`, encoding);
        assert.equal(packed.headers['content-encoding'], encoding);
        assert.equal(packed.headers['accept-ranges'], undefined);
        assert.ok(unpacked(packed.bytes).toString() === said);
        const part = await get(`${build.path}/log.txt`, encoding, { range: 'bytes=0-5' });
        assert.deepEqual([part.status, part.text, part.headers['content-encoding']], [206, 'all te', undefined]);
        const several = await get(`${build.path}/log.txt`, encoding, { range: 'bytes=0-1,3-4' });
        assert.deepEqual([several.status, several.headers['content-encoding']], [200, undefined]);
      }
      const text = await get(`${build.path}/log`, 'zstd');
      assert.equal(text.headers['content-encoding'], 'zstd');
    };
    await check();
    await build.task.exit(0);
    await check();
    for (const accept of ['text/event-stream', 'application/x-ndjson']) {
      const { headers } = await get(`${build.path}/firehose`, 'gzip', { accept });
      assert.equal(headers['content-encoding'], undefined);
    }
  });
});
