import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import { most } from '../../../src/shared/domain/bounds.ts';
import type { TestBatch, TestReceipt, TestReport } from '../../../src/shared/protocol/index.ts';
import { RejectedError } from '../../../src/runner/failures.ts';
import { collectReports } from '../../../src/runner/reports/collect-reports.ts';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../../src/runner/sandbox/types.ts';
import { temporaryFolder } from '../../support/databases.ts';

const limits = { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: 60_000 };
const claim = 'the claim of this build';
const patient = new AbortController().signal;

describe('the reports that a build left', () => {
  let folder: string;
  let sandboxes: Sandboxes;
  before(async () => {
    folder = temporaryFolder();
    chmodSync(folder, 0o755);
    mkdirSync(join(folder, 'checkout'));
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
    await sandboxes.adopt(join(folder, 'checkout'));
  });
  after(async () => {
    await sandboxes.close();
    rmSync(folder, { recursive: true });
  });

  interface Read {
    tests: TestReport[];
    batches: TestBatch[];
    told: string;
  }
  type Answer = (batch: TestBatch) => TestReceipt | Promise<TestReceipt>;

  const takeAll: Answer = () => ({ taken: true });

  /** Runs a command in an empty workspace, and reads its reports. */
  const reportsOf = async (
    command: string,
    globs: string[],
    {
      secrets = [],
      answer = takeAll,
      signal = patient,
    }: { secrets?: string[]; answer?: Answer; signal?: AbortSignal } = {},
  ): Promise<Read> => {
    const batches: TestBatch[] = [];
    let told = '';
    const link = {
      tests: async (batch: TestBatch) => {
        assert.equal(batch.claim, claim);
        const receipt = await answer(batch);
        if ('taken' in receipt) batches.push(batch);
        return receipt;
      },
    };
    const tell = (text: string): void => void (told += text);
    const ended = await sandboxes.run({
      id: 'reports',
      steps: [{ name: 'command', command: `set +e; ${command}` }],
      environment: {},
      workspace: { checkout: join(folder, 'checkout') },
      limits,
      output: (chunk) => void (told += chunk.toString()),
      onLeft: (left) => collectReports(left, { globs, secrets, link, claim, tell, signal }),
      signal,
    });
    assert.equal(ended.exitStatus, 0, told);
    return { batches, tests: batches.flatMap(({ tests }) => tests), told };
  };

  const names = ({ tests }: Read): string[] => tests.map(({ name }) => name);

  test('are read one after the other, and what is wrong with them is told', async () => {
    const read = await reportsOf(
      `mkdir -p out/deep
      echo '<testsuite name="s"><testcase name="a"/><testcase name="b"><failure message="m"/></testcase></testsuite>' > out/1.xml
      echo '<testsuite><testcase name="c"/><testcase name="d"' > out/2.xml
      echo 'no XML' > out/3.xml
      ln -s /etc/passwd out/4.xml
      echo '<testsuite><testcase name="e"><skipped/></testcase></testsuite>' > out/deep/5.xml`,
      ['out/**/*.xml', 'nothing/*.xml'],
    );
    assert.deepEqual(names(read), ['a', 'b', 'c', 'e']);
    assert.deepEqual(
      read.batches.map(({ start, isLast }) => [start, isLast]),
      [[0, true]],
    );
    assert.match(read.told, /^No file matches the report pattern nothing\/\*\.xml\.$/m);
    assert.match(read.told, /^The report out\/2\.xml could not be read: .*\. The test before the error counts\.$/m);
    assert.match(read.told, /^The report out\/3\.xml could not be read: it is not well-formed XML, at line 1/m);
    assert.match(read.told, /^Tests: 2 passed, 1 failed, 1 skipped, in 4 reports\.$/m);
    assert.doesNotMatch(read.told, /root:/);
  });

  test('are not there: told, and nothing sent', async () => {
    const { batches, told } = await reportsOf('true', ['*.xml']);
    assert.deepEqual(batches, []);
    assert.match(told, /No file matches the report pattern \*\.xml/);
    assert.doesNotMatch(told, /Tests:/);
  });

  test('are sent in batches, without the secrets of the suite [promise: build-secrets]', async () => {
    const secret = 'correct-horse-battery';
    const read = await reportsOf(
      `perl -e 'print "<testsuite>"; print "<testcase name=\\"n$_ ${secret}\\"/>" for 1..1203; print "</testsuite>"' > r.xml`,
      ['r.xml'],
      { secrets: [secret] },
    );
    assert.deepEqual(
      read.batches.map(({ start, tests, isLast }) => [start, tests.length, isLast]),
      [
        [0, 500, false],
        [500, 500, false],
        [1000, 203, true],
      ],
    );
    assert.equal(read.tests[1202]?.name, 'n1203 [masked]');
    assert.doesNotMatch(JSON.stringify(read), /correct-horse/);
  });

  test('are cut where a build has too many, and the runner does not grow [promise: build-reports]', async () => {
    let largest = 0;
    const base = process.memoryUsage().rss;
    const watch = setInterval(() => (largest = Math.max(largest, process.memoryUsage().rss - base)), 5);
    const tooMany = most.tests + 5;
    const kept: number[] = [];
    const { told } = await reportsOf(
      // A report with too many tests, one with an attribute of 40 MB, and one with a text of 40 MB.
      `perl -e 'print "<testsuite>"; print "<testcase name=\\"n$_\\"><system-out>".("x" x 50)."</system-out></testcase>" for 1..${tooMany}; print "</testsuite>"' > 3.xml
      perl -e 'print "<testsuite><testcase name=\\"first\\"/><testcase name=\\""; print "x" x 1_000_000 for 1..40; print "\\"/></testsuite>"' > 1.xml
      perl -e 'print "<testsuite><testcase name=\\"second\\"><failure>"; print "x" x 1_000_000 for 1..40; print "</failure></testcase></testsuite>"' > 2.xml`,
      ['*.xml'],
      {
        answer: ({ tests }) => {
          kept.push(tests.length);
          return { taken: true };
        },
      },
    );
    clearInterval(watch);
    assert.equal(
      kept.reduce((sum, count) => sum + count, 0),
      most.tests,
    );
    assert.match(
      told,
      /The report 1\.xml could not be read: one of its attributes, comments or declarations is too long/,
    );
    assert.match(told, /The reports exceed the limit of tests per build: the first 100000 count\./);
    assert.match(told, /Tests: 99999 passed, 1 failed, 0 skipped, in 3 reports\./);
    assert.ok(largest < 200 * 1024 * 1024, `it grew by ${largest} bytes`);
  });

  test('cost nothing else when the server does not take them', async () => {
    const command = `echo '<testsuite><testcase name="a"/></testsuite>' > r.xml`;
    const full = await reportsOf(command, ['r.xml'], { answer: () => ({ refused: 'disk_full' }) });
    assert.match(full.told, /The test results were not stored: the disk of the server is full\./);
    const rejected = await reportsOf(command, ['r.xml'], {
      answer: () => {
        throw new RejectedError('it is no batch');
      },
    });
    assert.match(rejected.told, /The test results were lost: it is no batch/);
    let tries = 0;
    const away = await reportsOf(command, ['r.xml'], {
      answer: () => {
        tries += 1;
        if (tries < 3) throw new Error('away');
        return { taken: true };
      },
    });
    assert.deepEqual(names(away), ['a']);
  });

  test('are left alone when the build is called off', async () => {
    const off = new AbortController();
    const command = `echo '<testsuite><testcase name="a"/></testsuite>' > r.xml`;
    const reading = reportsOf(command, ['r.xml'], {
      signal: off.signal,
      answer: async () => {
        off.abort(new Error('called off'));
        await pause(10);
        throw new Error('away');
      },
    });
    await assert.rejects(reading, /called off/);
  });
});
