import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isTimeZone } from '../../../src/shared/lib/time-zones.ts';
import { parseCron } from '../../../src/shared/domain/cron.ts';

/** The first times after a moment. */
function times(cron: string, zone: string, from: string, count: number): string[] {
  const parsed = parseCron(cron, zone) ?? assert.fail(cron);
  const found: string[] = [];
  for (let at = Date.parse(from); found.length < count;) {
    at = parsed.after(at) ?? assert.fail(`${cron} has no more`);
    found.push(new Date(at).toISOString().slice(5, 16));
  }
  return found;
}

describe('times of a schedule', () => {
  test('go by the clocks of the zone, in winter and in summer', () => {
    assert.deepEqual(times('0 8 * * 1-5', 'Europe/Berlin', '2027-01-15T08:00:00Z', 2), ['01-18T07:00', '01-19T07:00']);
    assert.deepEqual(times('0 8 * * MON-FRI', 'Europe/Berlin', '2027-07-16T08:00:00Z', 1), ['07-19T06:00']);
    assert.deepEqual(times('*/20 9 1 JAN *', 'America/New_York', '2027-01-01T00:00:00Z', 2), [
      '01-01T14:00',
      '01-01T14:20',
    ]);
    assert.deepEqual(times('0 0 13 * 5', 'UTC', '2027-08-07T00:00:00Z', 3), [
      '08-13T00:00',
      '08-20T00:00',
      '08-27T00:00',
    ]);
    assert.deepEqual(times('0 0 29 2 *', 'UTC', '2026-01-01T00:00:00Z', 1), ['02-29T00:00']);
  });

  test('that do not exist in a night are when the clocks are changed, once', () => {
    const berlin = ['03-27T01:30', '03-28T01:00', '03-29T00:30'];
    assert.deepEqual(times('30 2 * * *', 'Europe/Berlin', '2027-03-27T00:00:00Z', 3), berlin);
    const listed = ['03-28T01:00', '03-29T00:15', '03-29T00:45'];
    assert.deepEqual(times('15,45 2 * * *', 'Europe/Berlin', '2027-03-27T12:00:00Z', 3), listed);
    const newYork = ['03-13T07:30', '03-14T07:00', '03-15T06:30'];
    assert.deepEqual(times('30 2 * * *', 'America/New_York', '2027-03-13T06:00:00Z', 3), newYork);
  });

  test('that come twice in a night are run the first time alone', () => {
    const berlin = ['10-31T00:15', '10-31T00:45', '11-01T01:15'];
    assert.deepEqual(times('15,45 2 * * *', 'Europe/Berlin', '2027-10-30T12:00:00Z', 3), berlin);
    // Also for who comes in between, or during the second time.
    for (const from of ['2027-10-31T00:50:00Z', '2027-10-31T01:05:00Z'])
      assert.deepEqual(times('15,45 2 * * *', 'Europe/Berlin', from, 1), ['11-01T01:15']);
    const newYork = ['11-07T05:30', '11-07T08:30', '11-08T06:30'];
    assert.deepEqual(times('30 1,3 * * *', 'America/New_York', '2027-11-07T04:00:00Z', 3), newYork);
  });

  test('of every hour are in each hour that passes', () => {
    const back = ['10-30T23:30', '10-31T00:30', '10-31T01:30', '10-31T02:30'];
    assert.deepEqual(times('30 * * * *', 'Europe/Berlin', '2027-10-30T23:00:00Z', 4), back);
    const forth = ['03-28T00:30', '03-28T01:30', '03-28T02:30'];
    assert.deepEqual(times('30 * * * *', 'Europe/Berlin', '2027-03-28T00:00:00Z', 3), forth);
  });

  test('are five fields of numbers and names', () => {
    const wrong = ['', '* * * *', '* * * * * *', '0 0 1 1 * 2027', '@daily', '60 * * * *', '0 24 * * *', '0 0 0 * *'];
    wrong.push('0 0 32 * *', '0 0 * 13 *', '0 0 * * 8', '0 0 * * FOO', 'MON 0 * * *', '*/0 * * * *', '5-1 * * * *');
    wrong.push('0 0 L * *', '0 0 15W * *', '0 0 * * 5#2', '? * * * *', '1,,2 * * * *', '-1 * * * *', '1.5 * * * *');
    wrong.push(`${'1,'.repeat(100)}x * * * *`, '0 0 * * \u0661');
    for (const cron of wrong) assert.equal(parseCron(cron, 'UTC'), undefined, cron);
    for (const cron of ['0 0 30 2 *', '0 0 31 2,4,6,9,11 *'])
      assert.equal(parseCron(cron, 'Europe/Berlin')?.after(Date.now()), undefined, cron);
  });

  test('are in zones by their names', () => {
    for (const name of ['UTC', 'Europe/Berlin', 'America/New_York', 'Etc/UTC', 'Asia/Kathmandu', 'US/Eastern'])
      assert.ok(isTimeZone(name), name);
    for (const name of ['', 'Mars/Olympus', '+02:00', '-01:00', 'GMT+25', 'Europe/Berlin ', 'Europe'])
      assert.ok(!isTimeZone(name), name);
  });
});
