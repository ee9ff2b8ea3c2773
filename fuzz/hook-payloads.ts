import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { most } from '../src/shared/domain/bounds.ts';
import { PayloadError, type Facts } from '../src/server/inbound-hooks/facts.ts';
import { openBody } from '../src/server/inbound-hooks/payload.ts';
import { providers, type Provider } from '../src/server/inbound-hooks/providers.ts';
import { mutated, oddBytes } from './mutations.ts';
import { pure } from './target.ts';

/** The names that forges use, so that payloads come near to what is read. */
const keys = fc.constantFrom(
  ...`
    ref after sha deleted head_commit id message repository full_name ssh_url action pull_request number head base
    repo sender login payload __proto__ constructor object_attributes iid last_commit source target target_branch
    oldrev checkout_sha push changes new old name type hash pullrequest pullRequest toRef fromRef
  `
    .trim()
    .split(/\s+/),
);
const leaf = fc.oneof(
  fc.constantFrom('refs/heads/main', 'refs/tags/v1', 'main', 'opened', 'update', 'tag', 'refs/heads/a\0b', '-x', '..'),
  fc.constantFrom('0'.repeat(40), 'a'.repeat(40), 'A'.repeat(40), 'f'.repeat(12), '[skip ci]', 'x'.repeat(5000)),
  fc.constantFrom(0, 7, -1, 1e300, true, false, null),
  oddBytes.map((bytes) => bytes.toString()),
);
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'medium' },
    leaf,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(keys, tie('value'), { maxKeys: 8 }),
  ),
}));
const payload = fc.dictionary(keys, value, { maxKeys: 12 }).map((object) => Buffer.from(JSON.stringify(object)));
const event = fc.constantFrom(
  'push',
  'pull_request',
  'ping',
  'Push Hook',
  'Merge Request Hook',
  'repo:push',
  'pr:opened',
);
const eventHeaders = ['x-github-event', 'x-gitea-event', 'x-gitlab-event', 'x-event-key'];
const contentType = fc.constantFrom('application/json', 'application/x-www-form-urlencoded');

/** A payload becomes facts that can be stored, or is refused in words; nothing else comes of it. */
const anyProvider = fc.constantFrom<Provider[]>(...Object.values(providers));

export const hookPayloads = pure(
  'hook-payloads',
  500,
  fc.property(anyProvider, mutated(payload), event, contentType, (provider, body, told, type) => {
    const headers = { 'content-type': type, ...Object.fromEntries(eventHeaders.map((header) => [header, told])) };
    let facts: Facts;
    try {
      facts = openBody(provider, headers, body).read();
    } catch (error) {
      assert.ok(error instanceof PayloadError, String(error));
      return;
    }
    const text = JSON.stringify(facts);
    assert.ok(text.length < 100_000, 'it takes too much room');
    assert.ok(!text.includes('\\u0000'), 'no database takes it');
    assert.ok(facts.changes.length <= most.hookChanges);
  }),
);
