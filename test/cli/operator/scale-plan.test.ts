import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../support/properties.ts';
import { Pace, plan } from '../../../src/cli/operator/scale-plan.ts';
import { jobScript, readJobs } from '../../../src/cli/operator/slurm.ts';
import { run } from '../../../src/shared/lib/processes.ts';

const ids = (count: number): string[] => Array.from({ length: count }, (_, at) => String(at + 1));
const jobs = (pending: number, active = 0, leaving = 0) => ({ pending: ids(pending), active, leaving });

describe('how many jobs a scaler wants', () => {
  const cases: [string, Parameters<typeof plan>, ReturnType<typeof plan>][] = [
    ['none for nothing', [{ waiting: 0, running: 0 }, jobs(0), 10], { submit: 0, cancel: [] }],
    ['one for each that waits', [{ waiting: 3, running: 0 }, jobs(0), 10], { submit: 3, cancel: [] }],
    ['at most so many', [{ waiting: 30, running: 0 }, jobs(0), 10], { submit: 10, cancel: [] }],
    ['what is pending counts', [{ waiting: 3, running: 0 }, jobs(2), 10], { submit: 1, cancel: [] }],
    ['what starts counts', [{ waiting: 3, running: 0 }, jobs(0, 3), 10], { submit: 0, cancel: [] }],
    ['what works does not', [{ waiting: 3, running: 3 }, jobs(0, 3), 10], { submit: 3, cancel: [] }],
    ['what works takes a place', [{ waiting: 9, running: 3 }, jobs(0, 3), 10], { submit: 7, cancel: [] }],
    ['what leaves takes a place alone', [{ waiting: 9, running: 0 }, jobs(0, 0, 4), 10], { submit: 6, cancel: [] }],
    [
      'what is not needed goes, the newest first',
      [{ waiting: 1, running: 0 }, jobs(3), 9],
      { submit: 0, cancel: ['2', '3'] },
    ],
    ['what runs stays', [{ waiting: 0, running: 0 }, jobs(0, 4), 10], { submit: 0, cancel: [] }],
    [
      'what is above the limit goes',
      [{ waiting: 9, running: 2 }, jobs(4, 2), 3],
      { submit: 0, cancel: ['2', '3', '4'] },
    ],
    ['a claim whose job is gone hides none', [{ waiting: 1, running: 2 }, jobs(0, 0), 10], { submit: 1, cancel: [] }],
  ];
  for (const [name, given, expected] of cases) test(name, () => assert.deepEqual(plan(...given), expected));

  test('never more than the limit or than what waits, whatever there is', () => {
    const few = fc.nat({ max: 40 });
    fc.assert(
      fc.property(
        few,
        few,
        few,
        few,
        few,
        fc.integer({ min: 1, max: 30 }),
        (waiting, running, pending, active, leaving, max) => {
          const { submit, cancel } = plan({ waiting, running }, jobs(pending, active, leaving), max);
          assert.ok(submit >= 0 && cancel.length <= pending);
          assert.ok(submit === 0 || cancel.length === 0, 'either or');
          assert.ok(submit === 0 || pending + active + leaving + submit <= max);
          assert.ok(submit === 0 || pending + submit <= waiting);
          if (waiting === 0) assert.equal(cancel.length, pending);
        },
      ),
    );
  });

  test('waits after bad ends, longer each time, until one ends well', () => {
    const pace = new Pace();
    const at = (well: number, badly: number, now: number): void =>
      pace.note({ well: ids(well).map((id) => `w${id}`), badly: ids(badly) }, now);
    at(0, 5, 0);
    assert.equal(pace.mayStart(0), true, 'what was over before does not count');
    at(0, 6, 100);
    assert.deepEqual([pace.mayStart(2099), pace.mayStart(2100)], [false, true]);
    at(0, 7, 3000);
    assert.deepEqual([pace.mayStart(6999), pace.mayStart(7000)], [false, true]);
    for (let bad = 8; bad < 30; bad += 1) at(0, bad, 10_000);
    assert.deepEqual([pace.mayStart(69_999), pace.mayStart(70_000)], [false, true]);
    at(1, 29, 80_000);
    at(1, 30, 80_000);
    assert.deepEqual([pace.mayStart(81_999), pace.mayStart(82_000)], [false, true]);
  });
});

describe('what squeue says', () => {
  test('is read by the state of each job', () => {
    const lines = ['12_2 PENDING', '12_10 PENDING', '9 RUNNING', '8 COMPLETING', '7 CONFIGURING', '6 SUSPENDED'];
    const over = ['5 CANCELLED', '4 COMPLETED', '3 FAILED', '2 NODE_FAIL', '1 PREEMPTED'];
    assert.deepEqual(readJobs(`${[...lines, ...over].join('\n')}\n`), {
      pending: ['12_2', '12_10'],
      active: 3,
      leaving: 1,
      ended: { well: ['4'], badly: ['3', '2'] },
    });
    assert.deepEqual(readJobs(''), { pending: [], active: 0, leaving: 0, ended: { well: [], badly: [] } });
  });

  test('is not passed over where it is not understood', () => {
    for (const line of ['12_[1-5] PENDING', 'slurm_load_jobs error', '12', '12 running', 'x RUNNING'])
      assert.throws(() => readJobs(`1 RUNNING\n${line}\n`), /unknown line/);
  });
});

describe('the script of a job', () => {
  test('gives every word as it is, in an environment of its own', async () => {
    const odd = `a'b "c" $(id) \`id\` ; & | \\ * ~ ünder`;
    const script = jobScript(['/bin/sh', '-c', 'env; printf %s "$1"', 'sh', odd], { PATH: '/usr/bin:/bin', ODD: odd });
    const { stdout, status } = await run('/bin/sh', [], { input: script, env: { HOME: '/h', SECRET: 'x' } });
    const said = stdout.toString();
    assert.equal(status, 0);
    assert.ok(said.endsWith(odd) && said.includes(`ODD=${odd}\n`) && said.includes('HOME=/h\n'), said);
    assert.doesNotMatch(said, /SECRET/);
    assert.throws(() => jobScript(['a\nb'], {}), /line break/);
  });
});
