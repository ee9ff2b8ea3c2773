import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sent, Signer } from './forge.ts';
import { deliver, hooksOfAllProviders, sign } from './forge.ts';
import { bitbucket, center, github, gitlab } from './payloads.ts';
import { describeServiceOnOne } from '../../support/service.ts';

const sha = 'd'.repeat(40);
const ref = 'refs/heads/topic';

/** How each forge tells of a push to `topic`, and of a pull request from it. */
interface Telling {
  hook: string;
  signer: Signer;
  push: [event: string, payload: (of: string) => unknown];
  pull: [event: string, payload: (head?: string) => unknown];
}

const forges: Record<string, Telling> = {
  github: {
    hook: 'github',
    signer: sign.github,
    push: ['push', (to) => github.push({ ref: to, sha })],
    pull: ['pull_request', (head) => github.pull({ sha, ...(head && { head }) })],
  },
  gitea: {
    hook: 'gitea',
    signer: sign.gitea,
    push: ['push', (to) => github.push({ ref: to, sha })],
    pull: ['pull_request', (head) => github.pull({ sha, ...(head && { head }) })],
  },
  gitlab: {
    hook: 'gitlab',
    signer: sign.gitlab,
    push: ['Push Hook', (to) => gitlab.push({ ref: to, sha })],
    pull: ['Merge Request Hook', (head) => gitlab.merge({ sha, ...(head && { head }) })],
  },
  'bitbucket cloud': {
    hook: 'bitbucket',
    signer: sign.bitbucket,
    push: ['repo:push', (to) => bitbucket.push([{ name: to.replace('refs/heads/', ''), hash: sha }])],
    pull: ['pullrequest:created', (head) => bitbucket.pull({ sha, ...(head && { head }) })],
  },
  'bitbucket data center': {
    hook: 'bitbucket',
    signer: sign.bitbucket,
    push: ['repo:refs_changed', (to) => center.push([{ ref: to, toHash: sha }])],
    pull: ['pr:opened', (head) => center.pull({ sha, ...(head && { head }) })],
  },
};

describeServiceOnOne('a push and a pull request from its branch', (service) => {
  for (const [name, { hook: provider, signer, push, pull }] of Object.entries(forges))
    test(`are joined as ${name} tells of them, whichever comes first`, async () => {
      const calls = [
        [push[0], push[1](ref)],
        [pull[0], pull[1]()],
      ] as const;
      for (const both of [calls, calls.toReversed()]) {
        const told = await begin();
        const made: bigint[] = [];
        for (const [event, payload] of both) made.push(await told.tell(signer, provider, event, payload));
        assert.deepEqual(await Promise.all(made.map((id) => told.joined(id))), [null, made[0]]);
        assert.notEqual(made[0], made[1]);
      }
      // Neither a push to another branch nor a fork's pull request is the same.
      const told = await begin();
      const one = await told.tell(signer, provider, push[0], push[1]('refs/heads/other'));
      const own = await told.tell(signer, provider, pull[0], pull[1]());
      const last = await told.tell(signer, provider, push[0], push[1](ref));
      const all = await Promise.all([one, own, last].map((id) => told.joined(id)));
      assert.deepEqual(all, [null, null, own]);
      const again = await begin();
      await again.tell(signer, provider, pull[0], pull[1]('mallory/code'), name === 'bitbucket cloud');
      assert.equal(await again.joined(await again.tell(signer, provider, push[0], push[1](ref))), null);
    });

  async function begin() {
    const owner = await service.user();
    const { project, hookOf } = await hooksOfAllProviders(owner);
    return {
      /** Answers with the request that came of it. */
      async tell(signer: Signer, provider: string, event: string, payload: unknown, isIgnored = false) {
        const hook = hookOf(provider);
        const sent: Sent = signer(hook.secret, event, payload);
        const { record, text } = await deliver(service.api, hook, sent);
        assert.equal(record['outcome'], isIgnored ? 'ignored' : 'build_requested', text);
        return record['build_request_id'] as bigint;
      },
      async joined(id: bigint) {
        return (await owner.get(`/projects/${project.id}/build_requests/${id}`)).record['joined_to_id'];
      },
    };
  }
});
