import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as fc from '../../support/properties.ts';
import type { Answer, Record_ } from '../../support/client.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

describeServiceOnOne('a list that grows without end', (service) => {
  let alice: User;
  let path: string;
  let newestFirst: bigint[];
  before(async () => {
    alice = await service.user();
    const project = await alice.createProject();
    path = `/projects/${project.id}/build_requests`;
    const made: Record_[] = [];
    for (let count = 0; count < 25; count += 1) made.push(await alice.requestBuild(project));
    newestFirst = made.map(({ id }) => id).toReversed();
  });

  const idsOf = (answer: Answer): bigint[] => answer.list.map(({ id }) => id);

  function linkTo(answer: Answer, relation: 'next' | 'prev'): string | undefined {
    const links = String(answer.headers.link ?? '').split(', ');
    const found = links.find((link) => link.endsWith(`; rel="${relation}"`));
    const target = found && /^<([^>]+)>/.exec(found)?.[1];
    if (target === undefined) return undefined;
    const url = new URL(target);
    assert.equal(url.origin, service.address);
    return url.pathname + url.search;
  }

  test('is walked from end to end and back by its links', async () => {
    const pages: bigint[][] = [];
    let at: string | undefined = `${path}?limit=10`;
    let last = at;
    while (at !== undefined) {
      const answer = await alice.get(at);
      pages.push(idsOf(answer));
      last = at;
      at = linkTo(answer, 'next');
    }
    assert.deepEqual(
      pages.map((page) => page.length),
      [10, 10, 5],
    );
    assert.deepEqual(pages.flat(), newestFirst);
    const back: bigint[][] = [];
    at = linkTo(await alice.get(last), 'prev');
    while (at !== undefined) {
      const answer = await alice.get(at);
      if (answer.list.length > 0) back.unshift(idsOf(answer));
      at = linkTo(answer, 'prev');
    }
    assert.deepEqual(back.flat(), newestFirst.slice(0, 20));
  });

  test('has no links when all of it is on one page', async () => {
    const answer = await alice.get(path);
    assert.deepEqual(idsOf(answer), newestFirst);
    assert.equal(answer.headers.link, undefined);
    assert.equal((await alice.get(`${path}?limit=25`)).headers.link, undefined);
  });

  test('links without what else stood in the query', async () => {
    const answer = await alice.get(`${path}?limit=5&oauth_token=secret&callback=f&other=1&before=${newestFirst[0]}`);
    const link = String(answer.headers.link);
    assert.doesNotMatch(link, /secret|oauth|callback|other/);
    assert.match(link, /limit=5/);
  });

  test('refuses limits and cursors that are none', async () => {
    for (const limit of ['0', '1001', '-1', 'x', '1.5', '99999999999999999999', '1&limit=2']) {
      assertWrongFields(await alice.get(`${path}?limit=${limit}`), { limit: 'invalid_format' });
    }
    const all = await alice.get(`${path}?limit=0&before=x&after=9223372036854775808`);
    assertWrongFields(all, { limit: 'invalid_format', before: 'invalid_format', after: 'invalid_format' });
    for (const limit of ['1', '1000', '']) assert.equal((await alice.get(`${path}?limit=${limit}`)).status, 200);
  });

  test('gives for any limit and cursors what a plain filter would', async () => {
    const cursor = fc.option(
      fc.oneof(
        fc.nat(24).chain((at) => fc.constantFrom(-1n, 0n, 1n).map((step) => (newestFirst[at] ?? 0n) + step)),
        fc.bigInt(0n, 2n ** 63n - 1n),
      ),
      { nil: undefined },
    );
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 30 }), cursor, cursor, async (limit, before, after) => {
        const query = new URLSearchParams({ limit: String(limit) });
        if (before !== undefined) query.set('before', String(before));
        if (after !== undefined) query.set('after', String(after));
        const answer = await alice.get(`${path}?${query.toString()}`);
        const within = newestFirst.filter((id) => id < (before ?? 2n ** 63n) && id > (after ?? -1n));
        const upwards = after !== undefined && before === undefined;
        const expected = upwards ? within.slice(-limit) : within.slice(0, limit);
        assert.deepEqual(idsOf(answer), expected);
        const [newest] = expected;
        const oldest = expected.at(-1);
        const hasOlder = oldest !== undefined && within.some((id) => id < oldest);
        const hasNewer = newest !== undefined && within.some((id) => id > newest);
        // A link to nothing is allowed beside a cursor, where finding out would cost another query; a missing one never.
        if (hasOlder) assert.ok(linkTo(answer, 'next'));
        if (hasNewer) assert.ok(linkTo(answer, 'prev'));
      }),
      { numRuns: 60 },
    );
  });
});
