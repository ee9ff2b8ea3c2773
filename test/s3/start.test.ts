import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { temporaryFolder } from '../support/folders.ts';
import { startFaultyProxy, type FaultyProxy } from '../support/faulty-proxy.ts';
import { longestWait } from '../support/pauses.ts';
import { headrace, serve } from '../support/program.ts';
import { startSwift, type Swift } from '../support/swift.ts';

describe('a start with blobs in S3', () => {
  let swift: Swift;
  let proxy: FaultyProxy;
  let folder: string;
  let bucket: string;
  const cleanUps: (() => void | Promise<void>)[] = [];
  const afterwards = (cleanUp: () => void | Promise<void>): void => void cleanUps.push(cleanUp);
  before(async () => {
    swift = await startSwift();
    proxy = await startFaultyProxy(swift.endpoint);
    bucket = await swift.bucket();
    folder = temporaryFolder();
  });
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
    await proxy.close();
    await swift.close();
    rmSync(folder, { recursive: true });
  });
  // Nothing of the machine on which the tests run is used.
  const nobody = {
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_CONFIG_FILE: '/dev/null',
  };
  const urlOf = (name: string, { endpoint = proxy.endpoint, more = '&path_style=true' } = {}): string =>
    `s3://${name}/p?endpoint=${endpoint}&region=${swift.region}${more}`;

  const refusals: [string, () => Record<string, string>, RegExp][] = [
    [
      'a bucket that is not there',
      () => ({ ...swift.credentials, HEADRACE_BLOB_URL: urlOf('nowhere') }),
      /blob_url: S3 has no bucket nowhere at 127\.0\.0\.1:\d+\. Create it/,
    ],
    [
      'a name that no bucket can have',
      () => ({ ...swift.credentials, HEADRACE_BLOB_URL: urlOf('Not_A_Name') }),
      /blob_url: S3 at 127\.0\.0\.1:\d+ rejects the bucket name Not_A_Name\. Correct blob_url/,
    ],
    [
      'a wrong secret',
      () => ({ ...swift.credentials, AWS_SECRET_ACCESS_KEY: 'WRONG-SECRET', HEADRACE_BLOB_URL: urlOf(bucket) }),
      /rejects the credentials\. Check AWS_ACCESS_KEY_ID/,
    ],
    [
      'no credentials',
      () => ({ HEADRACE_BLOB_URL: urlOf(bucket) }),
      /needs credentials, and none were found\. Set AWS_ACCESS_KEY_ID/,
    ],
    [
      'no region',
      () => ({ ...swift.credentials, HEADRACE_BLOB_URL: `s3://${bucket}` }),
      /needs a region\. Set it in blob_url/,
    ],
    [
      'a name that nobody has',
      () => ({ ...swift.credentials, HEADRACE_BLOB_URL: urlOf(bucket, { endpoint: 'http://s3.invalid', more: '' }) }),
      /the host name from blob_url does not exist.*path_style=true/,
    ],
    [
      'an unknown parameter',
      () => ({ ...swift.credentials, HEADRACE_BLOB_URL: urlOf(bucket, { more: '&secret=HIDDEN' }) }),
      /blob_url: after the question mark, it may only have endpoint, region, path_style and browsers/,
    ],
  ];
  for (const [what, environment, words] of refusals) {
    test(`is refused in words that say what to do: ${what}`, async () => {
      const { status, stderr } = await headrace(
        ['serve', '--data-dir', join(folder, 'refused'), '--port', '0', '--no-runner'],
        { ...nobody, ...environment() },
      );
      assert.equal(status, 1);
      assert.match(stderr.toString(), words);
      assert.doesNotMatch(stderr.toString(), /WRONG-SECRET|HIDDEN|secret-of-the-writer|Signature=/);
    });
  }

  test('is refused when the credentials may only read', async () => {
    proxy.when(({ method }) =>
      method === 'PUT'
        ? {
            status: 403,
            body: '<Error><Code>AccessDenied</Code></Error>',
            headers: { 'content-type': 'application/xml' },
          }
        : undefined,
    );
    const { status, stderr } = await headrace(
      ['serve', '--data-dir', join(folder, 'reader'), '--port', '0', '--no-runner'],
      { ...nobody, ...swift.credentials, HEADRACE_BLOB_URL: urlOf(bucket) },
    );
    proxy.when(() => undefined);
    assert.equal(status, 1);
    assert.match(stderr.toString(), /does not allow these credentials to use the bucket .* s3:PutObject/);
  });

  test('happens while S3 is merely away: health says so until it is back, and the local runner gets no credentials', async () => {
    proxy.when(() => 'refused');
    const data = join(folder, 'away');
    const env = { ...nobody, ...swift.credentials, HEADRACE_BLOB_URL: urlOf(bucket), HEADRACE_SANDBOX: 'off' };
    const serving = await serve({ afterwards }, data, env, { runner: true });
    /** What it has logged comes by another way than its answers, and may come later. */
    const logged = async (words: RegExp): Promise<void> => {
      for (const deadline = performance.now() + longestWait; !words.test(serving.log()); await pause(20))
        assert.ok(performance.now() < deadline, serving.log());
    };
    await logged(/unencrypted, because its endpoint is http:/);
    await logged(/the blobs cannot be reached: S3 cannot be reached/);
    const sick = await serving.api.get('/healthz');
    assert.equal(sick.status, 503);
    assert.match(sick.text, /blob storage cannot be used/);
    proxy.when(() => undefined);
    // It looks at most once a second.
    for (const deadline = performance.now() + longestWait; (await serving.api.get('/healthz')).status !== 200;) {
      assert.ok(performance.now() < deadline);
      await pause(100);
    }
    await logged(/the blobs can be reached again/);
    assert.doesNotMatch(serving.log(), /secret-of-the-writer|Signature=/);
    while (!existsSync(join(data, 'runner.sock'))) await pause(50);
    const children = readFileSync(`/proc/${serving.process.pid}/task/${serving.process.pid}/children`, 'utf8');
    const runners = children
      .split(' ')
      .filter((pid) => pid !== '' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('runner'));
    assert.ok(runners.length > 0);
    for (const pid of runners)
      assert.doesNotMatch(readFileSync(`/proc/${pid}/environ`, 'utf8'), /AWS_|secret-of-the-writer/);
    serving.process.kill('SIGTERM');
    await serving.exited;
    assert.deepEqual(await swift.keys(bucket), [], 'what proved that it can be written is gone');
  });

  test('takes credentials from a profile, as the AWS tools do', async () => {
    const file = join(folder, 'credentials');
    const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = swift.credentials;
    writeFileSync(file, `[ci]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`);
    const env = { ...nobody, AWS_SHARED_CREDENTIALS_FILE: file, AWS_PROFILE: 'ci', HEADRACE_BLOB_URL: urlOf(bucket) };
    const serving = await serve({ afterwards }, join(folder, 'profile'), env);
    assert.equal((await serving.api.get('/healthz')).status, 200);
    serving.process.kill('SIGTERM');
    await serving.exited;
  });
});
