import assert from 'node:assert/strict';
import { createReadStream, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { DiskFullError } from '../../src/shared/lib/disk-reserve.ts';
import { frameReader } from '../../src/shared/domain/file-frames.ts';
import type { Kept, Link } from '../../src/shared/protocol/index.ts';
import { StoreAwayError } from '../../src/runner/failures.ts';
import { keepArtifacts } from '../../src/runner/keep-artifacts.ts';
import { openOutbox, type Parcel } from '../../src/runner/outbox.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Ended, Job, Sandboxes } from '../../src/runner/sandbox/types.ts';
import { temporaryFolder } from '../support/databases.ts';

const limits = { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: 60_000 };
const patient = new AbortController().signal;
const claim = 'a-claim-of-this-test';
let outboxes = 0;

async function filesIn(parcel: Parcel | undefined): Promise<string[]> {
  const files: string[] = [];
  if (!parcel) return files;
  const frames = frameReader(createReadStream(parcel.artifactsFile) as AsyncIterable<Buffer>);
  for (let frame = await frames.next(); frame; frame = await frames.next())
    files.push(`${frame.text} ${JSON.stringify(await text(frame.content))}`);
  return files;
}

describe('keeping artifacts', () => {
  let folder: string;
  let sandboxes: Sandboxes;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    mkdirSync(join(folder, 'checkout'));
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
  });
  after(async () => {
    await sandboxes.close();
    rmSync(folder, { recursive: true });
  });

  interface Seen {
    ended: Ended;
    /** The paths of each request that was answered. */
    requests: string[][];
    log: string;
    /** What is in the outbox. */
    waiting: string[];
  }
  /** A server that takes files as `answer` says, by the number of the request and of the file in it. */
  const keep = async (
    command: string,
    answer: (request: number, file: number) => Kept | undefined,
    { room = 1024 ** 3, ...job }: Partial<Job> & { room?: number } = {},
  ): Promise<Seen> => {
    const requests: string[][] = [];
    let log = '';
    let count = 0;
    const link: Pick<Link, 'storeFiles'> = {
      async storeFiles(_claim, content) {
        const frames = frameReader(content as AsyncIterable<Buffer>);
        const paths: string[] = [];
        let frame = await frames.next();
        if (!frame) return { kept: true };
        const request = ++count;
        for (; frame; frame = await frames.next()) {
          const told = answer(request, paths.length);
          if (told) return told;
          paths.push(frame.text);
        }
        requests.push(paths);
        return { kept: true };
      },
    };
    let left = room;
    const take = async (bytes: number): Promise<void> => {
      if ((left -= bytes) < 0) throw new DiskFullError();
    };
    const outbox = await openOutbox({ folder: join(folder, `outbox-${++outboxes}`), disk: { take }, log: () => {} });
    await using waiting = outbox.begin(claim, '7');
    const services = { link: link as Link, log: () => {} };
    const wanted = { globs: ['m/*'], mostFiles: 10_000, mostBytes: 1024 ** 3 };
    const ended = await sandboxes.run({
      id: 'keeping',
      steps: [{ name: 'command', command: `set +e; ${command}` }],
      environment: {},
      workspace: { checkout: join(folder, 'checkout') },
      limits,
      output: () => {},
      onLeft: (left) =>
        keepArtifacts(services, left, wanted, { claim, waiting, print: (text) => void (log += text), signal: patient }),
      signal: patient,
      ...job,
    });
    await waiting.complete();
    outbox.release(claim);
    return { ended, requests, log, waiting: await filesIn(outbox.ready()[0]) };
  };
  const many = (count: number): string => `mkdir m; cd m; seq 10001 1${String(count).padStart(4, '0')} | xargs touch`;

  test('goes on where a request broke off', async () => {
    const { requests, log } = await keep(many(2500), (request, file) => {
      if (request === 2 && file === 500) throw new Error('the connection is gone');
      return undefined;
    });
    assert.deepEqual(
      requests.map((paths) => [paths[0], paths.length]),
      [
        ['m/10001', 1000],
        ['m/11001', 1000],
        ['m/12001', 500],
      ],
    );
    assert.equal(log, '\nArtifacts: 2500 files kept, 0 bytes.\n');
  });

  const waits = 'wait on the runner, because the server cannot store them now.';

  test('lets the files wait here where requests never get through, and says so', async () => {
    const { requests, log, ended, waiting } = await keep(many(3), () => {
      throw new Error('something between does not like it');
    });
    assert.deepEqual([requests, ended.exitStatus], [[], 0]);
    assert.equal(log, `\nArtifacts: 3 files (0 bytes) ${waits}\n`);
    assert.deepEqual(waiting, ['m/10001 ""', 'm/10002 ""', 'm/10003 ""']);
  });

  test('lets the rest wait here from where the store of the server was away, at once', async () => {
    let asked = 0;
    const { log, waiting } = await keep(`${many(2000)}; printf last >20000`, (request) => {
      asked = request;
      if (request === 2) throw new StoreAwayError('away');
      return undefined;
    });
    assert.equal(asked, 2);
    assert.equal(log, `\nArtifacts: 1000 files kept, 0 bytes.\nArtifacts: 1001 files (4 bytes) ${waits}\n`);
    assert.deepEqual([waiting.length, waiting[0], waiting.at(-1)], [1001, 'm/11001 ""', 'm/20000 "last"']);
  });

  test('keeps no half of a file where the disk of the runner is full, and says so', async () => {
    const command = 'mkdir m; head -c 1000 /dev/zero >m/a; head -c 3000000 /dev/zero >m/b';
    const { log, ended, waiting } = await keep(
      command,
      () => {
        throw new StoreAwayError('away');
      },
      { room: 1_500_000 },
    );
    assert.equal(ended.exitStatus, 0);
    assert.equal(
      log,
      '\nNot all artifacts are stored (none kept; 1 file (1000 bytes) wait on the runner): the disk of the runner is full.\n',
    );
    assert.deepEqual(
      waiting.map((file) => file.slice(0, 4)),
      ['m/a '],
    );
  });

  test('says when the server has no room, and does not ask again', async () => {
    let asked = 0;
    const { log, ended } = await keep(many(1500), (request) => {
      asked = request;
      return request === 2 ? { refused: 'disk_full' } : undefined;
    });
    assert.deepEqual([asked, ended.exitStatus], [2, 0]);
    assert.equal(log, '\nNot all artifacts are stored (1000 files kept, 0 bytes): the disk of the server is full.\n');
  });

  test('ends with a claim that is lost', async () => {
    await assert.rejects(
      keep(many(3), () => ({ gone: true })),
      /the claim expired/,
    );
  });

  test('happens after a command that failed, was killed, or took too long', async () => {
    const [failed, killed, slow] = [
      await keep('mkdir m; touch m/a; exit 3', () => undefined),
      await keep('mkdir m; touch m/a; kill -9 $$', () => undefined),
      // Time enough for the file also on a busy machine.
      await keep('mkdir m; touch m/a; sleep 1000', () => undefined, { limits: { ...limits, timeoutMs: 5000 } }),
    ];
    assert.deepEqual([failed.ended.exitStatus, killed.ended.exitStatus, slow.ended.reason], [3, 137, 'timed_out']);
    for (const { requests } of [failed, killed, slow]) assert.deepEqual(requests, [['m/a']]);
  });
});
