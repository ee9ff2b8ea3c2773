import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import { openS3Blobs } from '../../src/server/db/s3/blobs.ts';
import { readArchive } from '../../src/cli/operator/backup-archive.ts';
import { command } from '../support/command.ts';
import { startSwift, type Swift } from '../support/swift.ts';
import { preparedInstallation, temporaryFolder } from '../upkeep/support.ts';

async function* whole(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

describe('a backup of an installation with its blobs in S3', () => {
  let swift: Swift;
  before(async () => {
    swift = await startSwift();
    Object.assign(process.env, swift.credentials);
  });
  after(() => swift.close());

  const urlOf = (bucket: string): string =>
    `s3://${bucket}/ci?endpoint=${swift.endpoint}&region=${swift.region}&path_style=true`;
  const run = async (folder: string, url: string | undefined, ...args: string[]) => {
    const env: Record<string, string> = url === undefined ? {} : { HEADRACE_BLOB_URL: url };
    const { status, stdout, stderr } = await command([...args, '--data-dir', folder], env);
    return { status, stdout: stdout.toString(), stderr: stderr.toString() };
  };
  const filled = async (t: TestContext) => {
    const { installation } = await preparedInstallation(t, 'sqlite');
    const bucket = await swift.bucket();
    const place = { bucket, prefix: 'ci/', endpoint: swift.endpoint, region: swift.region, pathStyle: true };
    const blobs = openS3Blobs(place);
    const digests: string[] = [];
    for (const size of [0, 3, 9_000_000]) digests.push((await blobs.put(whole(randomBytes(size)))).digest);
    t.after(() => blobs.close());
    return { folder: installation.folder, bucket, url: urlOf(bucket), digests: digests.toSorted() };
  };
  const digestsIn = async (bucket: string): Promise<string[]> =>
    (await swift.keys(bucket)).map((key) => key.slice(-64)).toSorted();
  const linesOf = async (file: string): Promise<string[]> => {
    const lines: string[] = [];
    for await (const line of readArchive(file)) lines.push(line);
    return lines;
  };

  test('names them, with their sizes and where they are, and a restore says whether they are there', async (t) => {
    const { folder, bucket, url, digests } = await filled(t);
    const file = join(temporaryFolder(t), 'named.backup');
    const made = await run(folder, url, 'backup', file);
    assert.equal(made.status, 0, made.stderr);
    assert.match(made.stdout, /3 are referenced, but not included/);
    const [header = '', ...lines] = await linesOf(file);
    assert.deepEqual((JSON.parse(header) as { blobs: unknown }).blobs, { at: url, taken: false });
    const named = lines
      .filter((line) => line.startsWith('{"blob"'))
      .map((line) => JSON.parse(line) as { blob: string; size: number });
    assert.deepEqual(
      named.map(({ blob }) => blob),
      digests,
    );
    assert.deepEqual(
      named.map(({ size }) => size).toSorted((a, b) => a - b),
      [0, 3, 9_000_000],
    );
    assert.ok(!lines.join('\n').includes(swift.credentials.AWS_SECRET_ACCESS_KEY));

    const there = await run(join(temporaryFolder(t), 'there'), url, 'restore', file);
    assert.equal(there.status, 0, there.stderr);
    assert.match(there.stdout, /blobs: 3 are referenced, 3 are present/);
    const [first = ''] = digests;
    await swift.client.send(new DeleteObjectCommand({ Bucket: bucket, Key: `ci/${first.slice(0, 2)}/${first}` }));
    const lacking = await run(join(temporaryFolder(t), 'lacking'), url, 'restore', file);
    assert.match(lacking.stdout, /3 are referenced, 2 are present\n1 blobs are missing.*they were at s3:/s);
    const elsewhere = await run(join(temporaryFolder(t), 'folder'), undefined, 'restore', file);
    assert.match(elsewhere.stdout, /3 are referenced, 0 are present/);
  });

  test('takes them along when asked to, into a folder or into another bucket', async (t) => {
    const { folder, url, digests } = await filled(t);
    writeFileSync(join(folder, 'headrace.toml'), `blob_url = "${url}"\n`);
    const file = join(temporaryFolder(t), 'whole.backup');
    const made = await run(folder, undefined, 'backup', file, '--with-blobs');
    assert.equal(made.status, 0, made.stderr);
    assert.match(made.stdout, /3 are referenced, and included/);
    const into = join(temporaryFolder(t), 'data');
    const restored = await run(into, undefined, 'restore', file);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(restored.stdout, /blobs: 3 are referenced, 3 are present/);
    const files = readdirSync(join(into, 'blobs'), { recursive: true, withFileTypes: true });
    assert.deepEqual(
      files
        .filter((entry) => entry.isFile())
        .map(({ name }) => name)
        .toSorted(),
      digests,
    );
    // The settings of the backup lead to the old bucket, and away from what was restored.
    assert.ok(existsSync(join(into, 'headrace.toml.restored')) && !existsSync(join(into, 'headrace.toml')));

    const other = await swift.bucket();
    const moved = await run(join(temporaryFolder(t), 'moved'), urlOf(other), 'restore', file);
    assert.equal(moved.status, 0, moved.stderr);
    assert.deepEqual(await digestsIn(other), digests);
  });

  test('of a folder can be restored into S3', async (t) => {
    const { folder, url, digests } = await filled(t);
    assert.equal((await run(folder, undefined, 'blobs', 'copy', url, join(folder, 'blobs'))).status, 0);
    const file = join(temporaryFolder(t), 'folder.backup');
    assert.equal((await run(folder, undefined, 'backup', file)).status, 0);
    assert.equal((JSON.parse((await linesOf(file))[0] ?? '') as { headrace_backup: number }).headrace_backup, 1);
    const bucket = await swift.bucket();
    const restored = await run(join(temporaryFolder(t), 'data'), urlOf(bucket), 'restore', file);
    assert.equal(restored.status, 0, restored.stderr);
    assert.deepEqual(await digestsIn(bucket), digests);
  });

  test('leaves nothing in S3 when its restore fails, but for what was there', async (t) => {
    const { folder, url } = await filled(t);
    const file = join(temporaryFolder(t), 'whole.backup');
    // With the first use, something is sealed by which the right key is known.
    assert.equal((await run(folder, url, 'admin', 'user', 'create', 'ada@example.org')).status, 0);
    assert.equal((await run(folder, url, 'backup', file, '--with-blobs', '--without-keys')).status, 0);
    const bucket = await swift.bucket();
    const into = join(temporaryFolder(t), 'data');
    // Another installation's key: the restore fails at its end, after all blobs.
    const { installation } = await preparedInstallation(t, 'sqlite');
    const other = await run(into, urlOf(bucket), 'restore', file);
    assert.equal(other.status, 1, 'no key at all');
    const env = { HEADRACE_BLOB_URL: urlOf(bucket), HEADRACE_MASTER_KEY_FILE: installation.keyFile };
    const failed = await command(['restore', file, '--data-dir', into], env);
    assert.equal(failed.status, 1, failed.stdout.toString());
    assert.deepEqual(await swift.keys(bucket), []);
  });

  test('is not made when S3 is away: the reason is told, and no file is left', async (t) => {
    const { folder, url } = await filled(t);
    const file = join(temporaryFolder(t), 'none.backup');
    await swift.objects('off');
    const made = await run(folder, url, 'backup', file, '--with-blobs');
    await swift.objects('on');
    assert.equal(made.status, 1);
    assert.match(made.stderr, /S3 cannot be reached or is too busy/);
    assert.ok(!existsSync(file));
  });
});
