import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { frameReader } from '../../src/lib/frames.ts';
import type { Kept, Link } from '../../src/protocol/index.ts';
import { keepArtifacts } from '../../src/runner/keep-artifacts.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Ended, Job, Sandboxes } from '../../src/runner/sandbox/types.ts';
import { temporaryFolder } from '../support/databases.ts';

const limits = { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: 60_000 };
const patient = new AbortController().signal;

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
  }
  /** A server that takes files as `answer` says, by the number of the request and of the file in it. */
  const keep = async (
    command: string,
    answer: (request: number, file: number) => Kept | undefined,
    job: Partial<Job> = {},
  ): Promise<Seen> => {
    const requests: string[][] = [];
    let log = '';
    let count = 0;
    const link: Pick<Link, 'keep'> = {
      async keep(_claim, content) {
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
        keepArtifacts(services, left, wanted, { claim: 'c', tell: (text) => void (log += text), signal: patient }),
      signal: patient,
      ...job,
    });
    return { ended, requests, log };
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

  test('gives up where requests never get through, and says so', async () => {
    const { requests, log, ended } = await keep(many(3), () => {
      throw new Error('something between does not like it');
    });
    assert.deepEqual([requests, ended.exitStatus], [[], 0]);
    assert.equal(log, '\nNot all artifacts are kept (none kept): the server did not take them.\n');
  });

  test('says when the server has no room, and does not ask again', async () => {
    let asked = 0;
    const { log, ended } = await keep(many(1500), (request) => {
      asked = request;
      return request === 2 ? { refused: 'disk_full' } : undefined;
    });
    assert.deepEqual([asked, ended.exitStatus], [2, 0]);
    assert.equal(log, '\nNot all artifacts are kept (1000 files kept, 0 bytes): the disk of the server is full.\n');
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
      await keep('mkdir m; touch m/a; sleep 1000', () => undefined, { limits: { ...limits, timeoutMs: 1500 } }),
    ];
    assert.deepEqual([failed.ended.exitStatus, killed.ended.exitStatus, slow.ended.reason], [3, 137, 'timed_out']);
    for (const { requests } of [failed, killed, slow]) assert.deepEqual(requests, [['m/a']]);
  });
});
