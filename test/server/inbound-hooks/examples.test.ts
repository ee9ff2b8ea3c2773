import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, test } from 'node:test';
import { isAbout } from '../../../src/server/inbound-hooks/repositories.ts';
import { providers } from '../../../src/server/inbound-hooks/providers.ts';
import { isSigned } from '../../../src/server/inbound-hooks/proofs.ts';

interface Example {
  name: string;
  examples: { action?: string; ref?: string; deleted?: boolean; sender?: { login: string } }[];
}
const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as { default: Example[] } | Example[];
const all = Array.isArray(examples) ? examples : examples.default;
const url = 'git@github.com:Codertocat/Hello-World.git';

describe('everything that GitHub sends', () => {
  test('is understood, and asks for a build where it should', () => {
    let count = 0;
    const building: string[] = [];
    for (const { name, examples: its } of all) {
      for (const example of its) {
        count += 1;
        const facts = providers.github.read(name, example);
        assert.ok(facts.changes.length <= 1 && facts.unread === 0, name);
        assert.equal(facts.idle === '', facts.changes.length === 1, `${name} ${example.action}`);
        if (example.sender) assert.equal(facts.sender, example.sender.login);
        const [change] = facts.changes;
        if (!change || change.verdict) continue;
        assert.ok(isAbout(url, facts.repository));
        assert.match(change.sha, /^[0-9a-f]{40}$/);
        building.push([name, example.action ?? '', change.ref].join(' ').replace('  ', ' '));
      }
    }
    assert.ok(count > 250, 'the examples are there');
    assert.deepEqual(
      new Set(building),
      new Set([
        'push refs/heads/master',
        'push refs/tags/simple-tag',
        'pull_request opened refs/pull/2/head',
        'pull_request synchronize refs/pull/2/head',
        'pull_request reopened refs/pull/2/head',
      ]),
    );
  });
});

describe('a signature', () => {
  test('is what GitHub’s documentation says it is', () => {
    // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    const signature = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17';
    const headers = { 'x-hub-signature-256': signature };
    const check = (bytes: string): boolean =>
      isSigned(providers.github.proofs, "It's a Secret to Everybody", headers, Buffer.from(bytes));
    assert.ok(check('Hello, World!'));
    assert.ok(!check('Hello, World'));
  });
});

describe('the repository that a payload is about', () => {
  const addressed = (...addresses: string[]) => ({ names: [], addresses });
  const named = (...names: string[]) => ({ names, addresses: [] });
  const same = (own: string, told: Parameters<typeof isAbout>[1]): boolean => isAbout(own, told);
  const own = 'git@git.example.org:Team/Code.git';

  test('is the project’s, in whatever way it is spelled', () => {
    for (const address of [
      'git@git.example.org:Team/Code.git',
      'git@GIT.example.org:team/code',
      'ssh://git@git.example.org/team/code.git',
      'ssh://git@git.example.org:2222/team/code.git/',
      'https://git.example.org/team/code',
      'https://example.org:8443/team/code.git',
      'https://user:password@git.example.org/Team/Code.git',
    ]) {
      assert.ok(same(own, addressed(address)), address);
    }
    assert.ok(same(own, named('team/code')));
    assert.ok(same(own, { names: ['team/code'], addresses: ['https://git.example.org/scm/team/code.git'] }));
    assert.ok(same(own, { names: [], addresses: [] }), 'one that does not say');
    assert.ok(same('git@[::1]:team/code.git', addressed('https://git.example.org/team/code')), 'an address');
    assert.ok(same('git@forge:team/code.git', addressed('https://git.example.org/team/code')), 'an alias');
    assert.ok(same('git@localhost:/srv/git/team/code.git', named('team/code')), 'a folder');
  });

  test('is another’s where path or host are others', () => {
    for (const address of [
      'git@git.example.org:team/code2.git',
      'git@git.example.org:other/team/code.git',
      'git@git.example.org:code.git',
      'https://evil.example/team/code',
      'https://git.example.org.evil.example/team/code',
      'https://git.example.org/',
    ]) {
      assert.ok(!same(own, addressed(address)), address);
    }
    assert.ok(!same(own, named('team/cod')) && !same(own, named('evil/team/code')));
    assert.ok(!same('git@git.example.org:evil/team/code.git', named('team/code')));
  });
});
