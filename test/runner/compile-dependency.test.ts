import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { CompileOrder, Outcome } from '../../src/shared/protocol/index.ts';
import { compileDependency } from '../../src/runner/compile-dependency.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { openDependencyCache } from '../../src/runner/dependency-cache.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { spanTimes } from '../../src/runner/span-times.ts';
import { temporaryFolder } from '../support/databases.ts';
import { longestWait } from '../support/pauses.ts';
import { archiveOf } from '../support/software.ts';
import { tarOf } from '../support/tar.ts';

const megabyte = 1024 * 1024;
const unlimited = { memoryBytes: 512 * megabyte, processes: 100, timeoutSeconds: longestWait / 1000 };

/** The programs that unpack and pack have all their time: a short one ends the command, and nothing before it. */
const withTimeForTools = (sandboxes: Sandboxes): Sandboxes => ({
  ...sandboxes,
  run: (job) => sandboxes.run(job.isBuild ? job : { ...job, limits: { ...job.limits, timeoutMs: longestWait } }),
});

describe('compiling', () => {
  let folder: string;
  let sandboxes: Sandboxes;
  let services: Pick<RunnerDeps, 'link' | 'sandboxes' | 'dependencyCache' | 'scratch' | 'log' | 'operatorVariables'>;
  const blobs = new Map<string, Buffer>();
  let count = 0;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
    const scratch = join(folder, 'scratch');
    mkdirSync(scratch);
    const link: RunnerDeps['link'] = {
      read: async (digest) => piecesOf(blobs.get(digest) ?? assert.fail('no such blob')),
      async store(_claim, content) {
        const pieces: Uint8Array[] = [];
        for await (const piece of content) pieces.push(piece);
        return { digest: keep(Buffer.concat(pieces)) };
      },
      storeFiles: () => assert.fail('a compile leaves no artifacts'),
      access: () => assert.fail('a compile needs no key'),
      tests: () => assert.fail('a compile has no tests'),
      summary: () => assert.fail('a compile has no summary'),
      stepPoint: () => assert.fail('a compile has no steps'),
    };
    const log = (): void => {};
    const mostBytes = 100 * megabyte;
    const dependencyCache = await openDependencyCache({
      folder: join(folder, 'dependencyCache'),
      link,
      sandboxes,
      mostBytes,
      log,
    });
    const patient = withTimeForTools(sandboxes);
    const operatorVariables = (): Record<string, string> => ({ LAMP: 'lit' });
    services = { link, sandboxes: patient, dependencyCache, scratch, log, operatorVariables };
  });
  after(async () => {
    await sandboxes.close();
    rmSync(folder, { recursive: true });
  });

  const keep = (bytes: Buffer): string => {
    const digest = createHash('sha256').update(bytes).digest('hex');
    blobs.set(digest, bytes);
    return digest;
  };

  interface Compiled {
    outcome: Outcome;
    log: string;
  }

  const compile = async (
    archive: Buffer,
    changes: Partial<CompileOrder> = {},
    calling = { off: new AbortController(), when: /$^/ },
  ): Promise<Compiled> => {
    count += 1;
    const said: Buffer[] = [];
    const order: CompileOrder = {
      kind: 'compile_dependency',
      archive: { digest: keep(archive), size: archive.length, kind: 'tar' },
      source: '',
      command: 'cp -r . /opt/made',
      prefix: '/opt/made',
      environment: {},
      software: [],
      prefixes: [],
      limits: unlimited,
      unpacked: { bytes: megabyte, entries: 100 },
      ...changes,
    };
    const writeLog = (output: Buffer | string): void => {
      said.push(Buffer.from(output));
      if (calling.when.test(Buffer.concat(said).toString())) calling.off.abort(new Error('called off'));
    };
    const { signal } = calling.off;
    const task = { id: `compile-${count}`, writeLog, signal, spans: spanTimes() };
    const outcome = await compileDependency(services as RunnerDeps, order, task);
    assert.deepEqual(readdirSync(services.scratch), [], 'something is left');
    return { outcome, log: Buffer.concat(said).toString() };
  };

  test('keeps what the command left under the prefix, and that alone', async () => {
    const special = 'mkfifo /opt/made/pipe && touch /tmp/x && chmod 0 /opt/made/hello && ln -s hello /opt/made/link';
    const first = await compile(await archiveOf({ hello: 'hello\n' }), { command: `cp -r . /opt/made && ${special}` });
    assert.ok(first.outcome.kind === 'compiled', first.log);
    const software = [{ digest: first.outcome.digest, prefix: '/opt/first' }];
    const { outcome, log } = await compile(await archiveOf({ x: '' }), {
      software,
      prefixes: ['/opt/first'],
      command: 'cd /opt/first && ls && cat link && echo "$LAMP $PATH" && touch /opt/made/x',
    });
    assert.equal(outcome.kind, 'compiled', log);
    assert.match(log, /\nhello\nlink\nhello\nlit \/opt\/first\/bin:.*:\/usr\/bin:/);
  });

  const refusals: [string, Buffer, Partial<CompileOrder>, RegExp][] = [
    [
      'takes too long',
      tarOf([{ name: 'x' }]),
      { limits: { ...unlimited, timeoutSeconds: 1 }, command: 'sleep 100' },
      /exceeded its time limit/,
    ],
    [
      'fails',
      tarOf([{ name: 'x' }]),
      { command: 'echo no >&2; exit 3' },
      /no\n\nThe command failed with exit status 3\.\n$/,
    ],
    ['leaves nothing', tarOf([{ name: 'x' }]), { command: 'true' }, /left nothing under \/opt\/made/],
    ['holds too much', tarOf([{ name: 'huge', size: 2 ** 40 }]), {}, /refused: it unpacks to more than 1048576 bytes/],
    ['leads out', tarOf([{ name: '../x', content: 'x' }]), {}, /refused: \.\.\/x leads out of the archive/],
    ['has no such directory', tarOf([{ name: 'x' }]), { source: "it's\nnot there" }, /no directory it's\nnot there\./],
  ];
  for (const [what, archive, changes, why] of refusals) {
    test(`says in words what is wrong with what ${what}`, async () => {
      const { outcome, log } = await compile(archive, changes);
      assert.deepEqual(outcome, { kind: 'uncompilable' });
      assert.match(log, why);
    });
  }

  test('with too much memory says so', async () => {
    const hog = 'perl -e \'my $x = "x" x 400_000_000; print length $x\'';
    const limits = { ...unlimited, memoryBytes: 64 * megabyte };
    const { outcome, log } = await compile(tarOf([{ name: 'x' }]), { command: hog, limits });
    assert.deepEqual(outcome, { kind: 'uncompilable' });
    assert.match(log, /exceeded its memory limit|Out of memory/i);
  });

  test('is called off at once, and nothing is left', async () => {
    const calling = { off: new AbortController(), when: /begun/ };
    await assert.rejects(
      compile(tarOf([{ name: 'x' }]), { command: 'echo begun; sleep 100' }, calling),
      /the job was cancelled/,
    );
    assert.deepEqual(readdirSync(services.scratch), []);
  });
});

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
