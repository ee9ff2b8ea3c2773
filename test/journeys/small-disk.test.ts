import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer } from '../support/client.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { lacks } from '../support/machine.ts';
import { smallDisk, type SmallDisk } from '../support/small-disk.ts';
import { longestWait } from '../support/pauses.ts';

const megabyte = 1024 * 1024;
const size = 256;
const reserve = 64;

/** A whole installation on a real disk that is soon full. Its database lies there too, so there is one kind of it. */
describe('on a small disk', { skip: lacks('mounts') }, () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const database = {
    kind: 'sqlite' as const,
    emptyUrl: () => assert.fail('the database lies in the data folder'),
    afterwards: (cleanUp: () => void | Promise<void>) => void cleanUps.push(cleanUp),
  };
  let disk: SmallDisk;
  let folder: string;
  let installation: Installation;
  let loud: Project;
  let quiet: Project;
  before(async () => {
    disk = await smallDisk(database, size);
    folder = join(disk.folder, 'data');
    const settings = { HEADRACE_DISK_RESERVE: String(reserve) };
    installation = await startInstallation(database, settings, { folder });
    [loud, quiet] = [await installation.project('loud'), await installation.project('quiet')];
  });
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });

  const healthz = (): Promise<Answer> => installation.ask('/healthz');
  /** It is looked at once a second. */
  const untilHealth = async (status: number): Promise<Answer> => {
    for (const startedAt = Date.now(); ; await pause(100)) {
      const answer = await healthz();
      if (answer.status === status) return answer;
      assert.ok(Date.now() - startedAt < longestWait, `the service says ${answer.text}`);
    }
  };
  /** Keeps the disk full, whatever is removed from it meanwhile; a database may still have some room in its own files. */
  const untilRefused = async (): Promise<Answer> => {
    for (let count = 0; count < 1000; count += 1) {
      disk.fillTo(0);
      const form = { name: `no room ${count}`, repository_url: 'git@example.org:no.git' };
      const answer = await installation.ask('/projects', form);
      if (answer.status !== 201) return answer;
    }
    return assert.fail('there is always room');
  };
  const passes = async (project: Project): Promise<void> => {
    const request = await project.build(await project.repository.commit({ message: 'quiet' }));
    const [commit] = await project.commits();
    assert.equal(request.build_state, 'passed', JSON.stringify(await project.builds(commit)));
  };

  test('the service says when it is full, goes on with what is small, and says when it is not full any more', async (t) => {
    await quiet.suite(t, 'quiet', 'echo one');
    disk.fillTo(0.9 * reserve * megabyte);
    const answer = await untilHealth(503);
    assert.match(answer.text, /"reason":"the disk is full: 5\d MB are free, of 64 MB of reserve"/);
    await installation.api().post('/projects', { name: 'while full', repository_url: 'git@example.org:full.git' });
    await passes(quiet);
    disk.empty();
    assert.match((await untilHealth(200)).text, /"status":"ok"/);
  });

  test('a server starts where not a byte is free, shows what it has, and is well as soon as there is room', async (t) => {
    await quiet.suite(t, 'quiet', 'echo one');
    await installation.stop();
    disk.fillTo(0);
    assert.equal(disk.freeBytes(), 0);
    await installation.startServer();
    assert.match((await untilHealth(503)).text, /the disk is full/);
    assert.ok((await quiet.commits()).length > 0);
    const refused = await untilRefused();
    assert.deepEqual([refused.status, refused.text], [403, '{"error":{"generic":["resource_temporary_unavailable"]}}']);
    assert.ok((await quiet.commits()).length > 0, 'what is there is shown, also when nothing can be written');
    disk.empty();
    await untilHealth(200);
    await passes(quiet);
  });

  test('a server starts where rubbish has taken every byte, and removes it', async () => {
    await installation.stop();
    for (const name of ['ballast', 'runner/spool', 'runner/scratch', 'blobs/incoming'])
      rmSync(join(folder, name), { recursive: true, force: true });
    const mirror = 'runner/git/mirrors/1/killed';
    const rubbish = ['runner/spool/claim', 'runner/scratch/claim/source', 'runner/software/making.x/packed'];
    const halfAPack = `${mirror}/repository.git/objects/pack/tmp_pack_1`;
    for (const path of [...rubbish, 'blobs/incoming/killed/upload', halfAPack]) {
      mkdirSync(join(folder, path, '..'), { recursive: true });
      writeFileSync(join(folder, path), Buffer.alloc(4 * megabyte, 'x'));
    }
    for (const name of ['writing', 'lock']) writeFileSync(join(folder, mirror, name), '');
    disk.fillTo(0);
    await installation.startServer();
    assert.ok(disk.freeBytes() > 12 * megabyte, `${disk.freeBytes()} bytes are free`);
    assert.ok(!existsSync(join(folder, halfAPack)));
    disk.empty();
  });

  test('a repository that would fill it is refused in words, leaves nothing, and nobody else notices [promise: disk-reserve]', async (t) => {
    await quiet.suite(t, 'quiet', 'echo one');
    await loud.build('main');
    const free = (reserve + 16) * megabyte;
    disk.fillTo(free);
    await loud.repository.commit({ files: { large: randomBytes(30 * megabyte) } });
    const fetching = await loud.ask('main');
    await passes(quiet);
    assert.equal((await loud.end(fetching)).build_state, 'errored');
    assert.match(await loud.fetchLog(fetching), /The disk of this runner is too small for the repository\./);
    assert.ok(disk.freeBytes() > free - 4 * megabyte, `${disk.freeBytes()} bytes are left of ${free}`);
    const mirrors = readdirSync(join(folder, 'runner/git/mirrors'), { recursive: true, encoding: 'utf8' });
    assert.deepEqual(
      mirrors.filter((name) => /tmp_|writing$/.test(name)),
      [],
    );
    assert.match((await untilHealth(200)).text, /"status":"ok"/);
    disk.empty();
  });

  test('a log that would fill it is ended before, and nobody else notices [promise: disk-reserve]', async (t) => {
    await quiet.suite(t, 'quiet', 'echo one; sleep 1; echo two');
    await loud.suite(t, 'loud', 'cat /dev/urandom', { 'retry_on[]': '' });
    await untilHealth(200);
    const flood = await loud.ask(await loud.repository.commit({ message: 'flood' }));
    const beside = passes(quiet);
    assert.equal((await loud.end(flood)).build_state, 'errored');
    await beside;
    const [build] = await loud.builds((await loud.commits())[0]);
    assert.deepEqual([build?.build_state, build?.failure_reason], ['errored', 'disk_full']);
    const log = await loud.logBytes(build);
    assert.ok(log.length > 16 * megabyte, `only ${log.length} bytes are kept`);
    assert.match(log.subarray(-1000).toString('latin1'), /\nThe log was cut here and .* is full\. .*\n$/);
    assert.ok(disk.freeBytes() > (reserve / 2) * megabyte, `${disk.freeBytes()} bytes are left`);
    await installation.api().post('/projects', { name: 'afterwards', repository_url: 'git@example.org:after.git' });
    await passes(quiet);
  });
});
