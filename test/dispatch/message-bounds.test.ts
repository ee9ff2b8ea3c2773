import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bytes, longest, most } from '../../src/lib/bounds.ts';
import { randomName } from '../../src/lib/random-name.ts';
import type { Answer } from '../support/client.ts';
import { registered, type Registered } from '../support/registered.ts';
import { aCommit } from '../support/runner.ts';
import { describeService } from '../support/service.ts';

const digest = '0'.repeat(64);
const aTest = { name: '', class: '', suite: '', file: '', state: 'passed', durationMs: 0, message: '' };

/** A message with one text or list in it of the given length. */
type Message = (length: number) => object;

interface Bound {
  path: string;
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
  path: 'finish',
  field: `outcome[commit][${name}]`,
  most: bound,
  message: finish((length) => ({ kind: 'fetched', commit: { ...aCommit, [name]: of(length) } })),
});
const inLooked = (name: string, of: (length: number) => unknown, bound: number): Bound => ({
  path: 'finish',
  field: `outcome[${name}]`,
  most: bound,
  message: finish((length) => ({ kind: 'looked', defaultBranch: null, branches: [], files: [], [name]: of(length) })),
});
const inTest = (name: string, bound: number): Bound => ({
  path: 'tests',
  field: `tests[${name}]`,
  most: bound,
  message: (length) => ({ claim: randomName(), start: 0, isLast: true, tests: [{ ...aTest, [name]: text(length) }] }),
});

/** Every text and every list that a runner sends and that is not cut. */
const bounds: Bound[] = [
  ...['extend', 'leave'].map((path) => ({
    path,
    field: 'claims',
    most: most.claims,
    message: (length: number) => ({ claims: list(length, randomName()) }),
  })),
  { path: 'gone', field: 'projects', most: most.askedAbout, message: (length) => ({ projects: list(length, '1') }) },
  {
    path: 'stale',
    field: 'layers',
    most: most.askedAbout,
    message: (length) => ({ layers: list(length, { project: '1', name: '1' }) }),
  },
  {
    path: 'looked',
    field: 'reports',
    most: most.lookReports,
    message: (length) => ({
      reports: list(length, { projectId: '1', claim: randomName(), seen: { unchanged: true } }),
    }),
  },
  {
    path: 'looked',
    field: 'reports[seen][listing]',
    most: bytes.refListing,
    message: (length) => ({ reports: [{ projectId: '1', claim: randomName(), seen: { listing: text(length) } }] }),
  },
  {
    path: 'finish',
    field: 'steps',
    most: most.steps,
    message: (length) => ({
      claim: randomName(),
      logSize: 0,
      outcome: { kind: 'pushed' },
      steps: list(length, { name: 'x', from: 0, to: 0 }),
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
    path: 'finish',
    field: 'outcome[cache]',
    most: most.cacheLayers,
    message: finish((length) => ({ kind: 'exited', status: 0, cache: list(length, { name: '1', digest, bytes: 1 }) })),
  },
  {
    path: 'finish',
    field: 'outcome[config][text]',
    most: bytes.configFile,
    message: finish((length) => ({ kind: 'fetched', commit: aCommit, config: { before: null, text: text(length) } })),
  },
  {
    path: 'tests',
    field: 'tests',
    most: most.testsAtOnce,
    message: (length) => ({ claim: randomName(), start: 0, isLast: true, tests: list(length, aTest) }),
  },
  ...['name', 'class', 'suite', 'file'].map((name) => inTest(name, bytes.testName)),
  inTest('message', bytes.testMessage),
  {
    path: 'shell/output',
    field: 'bytes',
    most: bytes.shellOutput,
    message: (length) => ({ id: '1', offset: 0, bytes: Buffer.alloc(length, 'x').toString('base64') }),
  },
];

/** Bodies as a whole, each up to the length that its route takes. */
const bodies = {
  extend: bytes.body,
  finish: bytes.runnerReport,
  looked: bytes.lookReports,
  tests: bytes.testReports,
};

/** Whoever has a runner can write its messages. */
describeService('a message of a runner', (service) => {
  let runner: Registered;
  before(async () => {
    runner = await registered(service);
  });
  after(() => runner.link.close());

  const send = (path: string, body: string): Promise<Answer> =>
    service.api.post(`/runner/${path}`, {
      headers: { authorization: `Bearer ${runner.token}`, 'content-type': 'application/json' },
      body,
    });
  const refusal = (field: string) => ({ error: { [field]: ['invalid_format'] } });

  for (const { path, field, most: bound, message } of bounds) {
    test(`to ${path} has ${field} of at most ${bound} [promise: bounds]`, async () => {
      const taken = await send(path, JSON.stringify(message(bound)));
      assert.ok(!taken.text.includes('invalid_format'), `${taken.status} ${taken.text}`);
      assert.ok(taken.status < 500, `${taken.status} ${taken.text}`);
      const refused = await send(path, JSON.stringify(message(bound + 1)));
      assert.deepEqual([refused.status, refused.body], [403, refusal(field)]);
    });
  }

  for (const [path, bound] of Object.entries(bodies)) {
    test(`to ${path} has at most ${bound} bytes [promise: bounds]`, async () => {
      const padded = (length: number): string => '{}'.padEnd(length, ' ');
      const read = await send(path, padded(bound));
      assert.ok(!('generic' in (read.body.error as object)), read.text); // it lacks its fields
      const refused = await send(path, padded(bound + 1));
      assert.deepEqual([refused.status, refused.body], [403, refusal('generic')]);
    });
  }

  test('has words that are cut where they are too long [promise: bounds]', async () => {
    const alice = await service.user();
    await alice.createProject({ poll_interval: '60' });
    const [look = assert.fail()] = await runner.link.looks(1, new AbortController().signal);
    const seen = { failed: 'unreachable', message: text(longest.runnerWords + 1) };
    const report = { projectId: look.source.projectId, claim: look.claim, seen };
    assert.equal((await send('looked', JSON.stringify({ reports: [report] }))).status, 200);
    const { reason } = await service.store.db.read.selectFrom('polls').select('reason').executeTakeFirstOrThrow();
    assert.equal(reason, text(longest.runnerWords));
  });
});
