import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeForge } from '../../support/fake-forge.ts';
import { describeServiceOnOne } from '../../support/service.ts';

const brackets = '['.repeat(1_000_000) + ']'.repeat(1_000_000);

describeServiceOnOne(
  'a forge that answers with a million brackets',
  (service) => {
    for (const status of [200, 401, 404, 500]) {
      test(`and ${status} is no forge, and its answer is not parsed [promise: untrusted-input]`, async (t) => {
        await using forge = await FakeForge.start('github', 'team/app');
        const alice = await service.user();
        const made = await alice.post('/forges', forge.fields);
        assert.equal(made.status, 201, made.text);
        forge.interfere = (_, response) => (response.writeHead(status).end(brackets), 'answered');
        const parse = t.mock.method(JSON, 'parse');
        const listed = await alice.get(`/forges/${made.record.id}/repositories`);
        assert.equal(listed.status, 403, listed.text);
        const parsed = parse.mock.calls.filter(({ arguments: [text] }) => text.startsWith('[['));
        assert.equal(parsed.length, 0);
      });
    }
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
