import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { bytes, longest, most } from '../../../src/shared/domain/bounds.ts';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { RawRunner } from '../../support/raw-runner.ts';
import { registered, type Registered } from '../../support/registered.ts';
import { aCommit } from '../../support/runner.ts';
import { describeServiceOnOne } from '../../support/service.ts';

const aTest = { name: '', class: '', suite: '', file: '', state: 'passed', durationMs: 0, message: '' };

/** A message with one text or list in it of the given length. */
type Message = (length: number) => object;

interface Bound {
  call: string;
  /** What the error names. */
  field: string;
  most: number;
  message: Message;
}

const text = (length: number): string => 'x'.repeat(length);
const list = <T>(length: number, item: T): T[] => Array.from({ length }, () => item);

const finish = (outcome: (length: number) => object): Message => {
  return (length) => ({ claim: randomName(), logSize: 0, outcome: outcome(length) });
};
const inCommit = (name: string, of: (length: number) => unknown, bound: number): Bound => ({
  call: 'finish',
  field: `outcome[commit][${name}]`,
  most: bound,
  message: finish((length) => ({ kind: 'fetched', commit: { ...aCommit, [name]: of(length) } })),
});
const inLooked = (name: string, of: (length: number) => unknown, bound: number): Bound => ({
  call: 'finish',
  field: `outcome[${name}]`,
  most: bound,
  message: finish((length) => ({ kind: 'checked', defaultBranch: null, branches: [], files: [], [name]: of(length) })),
});
const inTest = (name: string, bound: number): Bound => ({
  call: 'tests',
  field: `tests[${name}]`,
  most: bound,
  message: (length) => ({ claim: randomName(), start: 0, isLast: true, tests: [{ ...aTest, [name]: text(length) }] }),
});

/** Every text and every list that a runner sends and that is not cut. */
const bounds: Bound[] = [
  ...['extend', 'leave'].map((call) => ({
    call,
    field: 'claims',
    most: most.claims,
    message: (length: number) => ({ claims: list(length, randomName()) }),
  })),
  { call: 'gone', field: 'projects', most: most.askedAbout, message: (length) => ({ projects: list(length, '1') }) },
  {
    call: 'stale',
    field: 'trees',
    most: most.askedAbout,
    message: (length) => ({ trees: list(length, { project: '1', name: '1' }) }),
  },
  {
    call: 'polled',
    field: 'reports',
    most: most.pollReports,
    message: (length) => ({
      reports: list(length, { projectId: '1', claim: randomName(), seen: { unchanged: true } }),
    }),
  },
  {
    call: 'polled',
    field: 'reports[seen][listing]',
    most: bytes.refListing,
    message: (length) => ({ reports: [{ projectId: '1', claim: randomName(), seen: { listing: text(length) } }] }),
  },
  {
    call: 'finish',
    field: 'spans',
    most: most.spans,
    message: (length) => ({
      claim: randomName(),
      logSize: 0,
      outcome: { kind: 'pushed' },
      spans: list(length, { name: 'x', from: 0, to: 0 }),
    }),
  },
  inLooked('defaultBranch', text, longest.gitName),
  inLooked('branches', (length) => list(length, 'x'), most.checked),
  inLooked('branches', (length) => [text(length)], longest.gitName),
  inLooked('files', (length) => list(length, 'x'), most.checked),
  inLooked('files', (length) => [text(length)], longest.gitName),
  inCommit('ref', text, longest.gitName),
  inCommit('branch', text, longest.gitName),
  inCommit('defaultBranch', text, longest.gitName),
  inCommit('branches', (length) => [text(length)], longest.gitName),
  inCommit('tags', (length) => [text(length)], longest.gitName),
  inCommit('files', (length) => [text(length)], longest.gitName),
  {
    call: 'finish',
    field: 'outcome[config][text]',
    most: bytes.configFile,
    message: finish((length) => ({
      kind: 'fetched',
      commit: aCommit,
      config: { path: 'ci.toml', before: null, text: text(length) },
    })),
  },
  {
    call: 'finish',
    field: 'outcome[included]',
    most: most.includesOfFile,
    message: finish((length) => ({
      kind: 'fetched',
      commit: aCommit,
      included: list(length, { problem: 'is away' }),
    })),
  },
  {
    call: 'tests',
    field: 'tests',
    most: most.testsAtOnce,
    message: (length) => ({ claim: randomName(), start: 0, isLast: true, tests: list(length, aTest) }),
  },
  ...['name', 'class', 'suite', 'file'].map((name) => inTest(name, bytes.testName)),
  inTest('message', bytes.testMessage),
  {
    call: 'log',
    field: 'bytes',
    most: bytes.logChunk,
    message: (length) => ({ claim: randomName(), offset: 0, bytes: Buffer.alloc(length, 'x') }),
  },
];

/** Messages as a whole. */
const messages = {
  extend: bytes.body,
  finish: bytes.runnerReport,
  polled: bytes.pollReports,
  tests: bytes.testReports,
};

/** Whoever has a runner can write its messages. */
describeServiceOnOne('a message of a runner', (service) => {
  let runner: Registered;
  before(async () => {
    runner = await registered(service);
  });
  let raw: RawRunner;
  before(async () => {
    raw = await RawRunner.open(service, runner.token);
  });
  after(() => {
    raw.close();
    runner.link.close();
  });

  const refusal = (field: string) => ({ status: 403, error: { [field]: ['invalid_format'] } });

  for (const { call, field, most: bound, message } of bounds) {
    test(`${call} has ${field} of at most ${bound} [promise: bounds]`, async () => {
      const say = (length: number) => {
        const { bytes: content, ...fields } = message(length) as { bytes?: Buffer };
        return raw.call(call, fields, content);
      };
      const taken = JSON.stringify(await say(bound));
      assert.ok(!taken.includes('invalid_format') && !taken.includes('"status":5'), taken);
      assert.deepEqual(await say(bound + 1), refusal(field));
    });
  }

  for (const [call, bound] of Object.entries(messages)) {
    test(`${call} has at most ${bound} bytes [promise: bounds]`, async () => {
      const padded = (length: number) => (id: number) => JSON.stringify({ id, call }).padEnd(length, ' ');
      const { error } = await raw.send(padded(bound));
      assert.ok(!('generic' in (error as object)), 'it lacks its fields');
      assert.deepEqual(await raw.send(padded(bound + 1)), refusal('generic'));
    });
  }

  test('of all kinds together ends the connection where it is larger than any may be [promise: bounds]', async () => {
    const greedy = await RawRunner.open(service, runner.token);
    greedy.socket.send('x'.repeat(Math.max(...Object.values(messages)) + 2048));
    const [code] = (await once(greedy.socket, 'close')) as [number];
    assert.equal(code, 1009);
  });

  test('has words that are cut where they are too long [promise: bounds]', async () => {
    const alice = await service.user();
    await alice.createProject({ poll_interval: '60' });
    const [look = assert.fail()] = await runner.link.polls({ room: 1 }, new AbortController().signal);
    const seen = { failed: 'unreachable', message: text(longest.runnerWords + 1) };
    const report = { projectId: look.source.projectId, claim: look.claim, seen };
    assert.deepEqual(await raw.call('polled', { reports: [report] }), {});
    const { reason } = await service.store.db.read.selectFrom('polls').select('reason').executeTakeFirstOrThrow();
    assert.equal(reason, text(longest.runnerWords));
  });
});
