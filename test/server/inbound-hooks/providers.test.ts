import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Fields, Record_ } from '../../support/client.ts';
import { describeServiceOnOne, type Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { deliver, hooksOfAllProviders, sign, type Hook, type Signer } from './forge.ts';
import { bitbucket, center, github, gitlab, sha } from './payloads.ts';

/** Which hook, how it is signed, what is sent, and what is to come of it. */
interface Case {
  what: string;
  provider: string;
  signer: Signer;
  event: string;
  payload: unknown;
  outcome: string;
  reason?: RegExp;
  request?: Fields;
}

const push = { event: 'push', target_branch: 'main', pull_request: null, from_fork: false, commit_ref: sha };
const tag = { event: 'tag', target_branch: '', pull_request: null, from_fork: false, commit_ref: sha };
const pull = { event: 'pull_request', target_branch: 'main', pull_request: 7, from_fork: false, commit_ref: sha };
const fork = { ...pull, from_fork: true };

function likeGithub(provider: 'github' | 'gitea', signer: Signer, synchronized: string): Case[] {
  const base = { provider, signer, event: 'push' };
  const built = { ...base, outcome: 'build_requested' };
  const ignored = { ...base, outcome: 'ignored' };
  const of = { event: 'pull_request' };
  return [
    { ...built, what: 'a push', payload: github.push(), request: { ...push, sender: 'octocat' } },
    { ...built, what: 'a tag', payload: github.push({ ref: 'refs/tags/v1' }), request: { ...tag, sender: 'octocat' } },
    {
      ...built,
      what: 'a tag with a message, whose commit is another',
      payload: { ...github.push({ ref: 'refs/tags/v1' }), after: 'd'.repeat(40) },
      request: tag,
    },
    {
      ...ignored,
      what: 'a deleted branch',
      payload: github.push({ deleted: true }),
      reason: /branch “main” was deleted/,
    },
    {
      ...ignored,
      what: 'a deleted tag',
      payload: github.push({ ref: 'refs/tags/v1', deleted: true }),
      reason: /tag “v1” was deleted/,
    },
    {
      ...ignored,
      what: 'a ref that is neither',
      payload: github.push({ ref: 'refs/notes/x' }),
      reason: /“refs\/notes\/x” is not a branch or tag/,
    },
    {
      ...ignored,
      what: 'another repository',
      payload: github.push({ name: 'other/code' }),
      reason: /“git@example\.org:other\/code\.git” is not the project’s repository, “git@example\.org:team\/code\.git”/,
    },
    {
      ...base,
      what: 'a commit that wants none',
      outcome: 'skipped',
      payload: github.push({ message: 'Docs\n\n[skip ci]' }),
      reason: /\[skip ci\]/,
    },
    {
      ...base,
      what: 'the same in the other order',
      outcome: 'skipped',
      payload: github.push({ message: 'Docs [CI skip]' }),
      reason: /\[CI skip\]/,
    },
    { ...ignored, what: 'a ping', event: 'ping', payload: { zen: 'Keep it', hook_id: 1 }, reason: /ping/ },
    { ...ignored, what: 'an event that is not read', event: 'create', payload: github.push(), reason: /“create”/ },
    { ...built, ...of, what: 'a pull request', payload: github.pull(), request: pull },
    {
      ...built,
      ...of,
      what: 'new commits of one',
      payload: github.pull({ action: synchronized }),
      request: { ...pull, sender: 'octocat' },
    },
    { ...built, ...of, what: 'one that is opened again', payload: github.pull({ action: 'reopened' }), request: pull },
    { ...built, ...of, what: 'one of a fork', payload: github.pull({ head: 'stranger/code' }), request: fork },
    { ...built, ...of, what: 'one of a fork that is gone', payload: github.pull({ head: null }), request: fork },
    { ...ignored, ...of, what: 'a closed one', payload: github.pull({ action: 'closed' }), reason: /“closed”/ },
    { ...ignored, ...of, what: 'a labelled one', payload: github.pull({ action: 'labeled' }), reason: /“labeled”/ },
  ];
}

const gitlabCases: Case[] = [sign.gitlab, sign.gitlabSigned].flatMap((signer) => {
  const base = { provider: 'gitlab', signer, event: 'Push Hook' };
  const built = { ...base, outcome: 'build_requested' };
  const ignored = { ...base, outcome: 'ignored' };
  const of = { event: 'Merge Request Hook' };
  const tagged = gitlab.push({ ref: 'refs/tags/v1' });
  return [
    { ...built, what: 'a push', payload: gitlab.push(), request: { ...push, sender: 'tanuki' } },
    {
      ...built,
      what: 'a tag with a message',
      event: 'Tag Push Hook',
      payload: { ...tagged, after: 'd'.repeat(40) },
      request: { ...tag, sender: 'tanuki' },
    },
    { ...ignored, what: 'a deleted branch', payload: gitlab.push({ deleted: true }), reason: /“main” was deleted/ },
    {
      ...ignored,
      what: 'another repository',
      payload: gitlab.push({ name: 'a/b' }),
      reason: /a\/b\.git” is not the project’s/,
    },
    { ...base, what: 'one that wants none', outcome: 'skipped', payload: gitlab.push({ message: 'x [ci skip]' }) },
    { ...ignored, what: 'another event', event: 'Wiki Page Hook', payload: gitlab.push(), reason: /“Wiki Page Hook”/ },
    { ...built, ...of, what: 'a merge request', payload: gitlab.merge(), request: { ...pull, sender: 'tanuki' } },
    { ...built, ...of, what: 'one opened again', payload: gitlab.merge({ action: 'reopen' }), request: pull },
    { ...ignored, ...of, what: 'a new title', payload: gitlab.merge({ action: 'update' }), reason: /no new commits/ },
    { ...ignored, ...of, what: 'a merge', payload: gitlab.merge({ action: 'merge' }), reason: /“merge”/ },
    { ...built, ...of, what: 'one of a fork', payload: gitlab.merge({ head: 'stranger/code' }), request: fork },
    { ...built, ...of, what: 'one of a fork that is gone', payload: gitlab.merge({ head: null }), request: fork },
    {
      ...base,
      ...of,
      what: 'one that wants none',
      outcome: 'skipped',
      payload: gitlab.merge({ message: 'x [skip ci]' }),
    },
    {
      ...built,
      ...of,
      what: 'new commits of one',
      payload: withOldrev(gitlab.merge({ action: 'update' })),
      request: pull,
    },
  ];
});

function withOldrev(payload: ReturnType<typeof gitlab.merge>) {
  return { ...payload, object_attributes: { ...payload.object_attributes, oldrev: 'e'.repeat(40) } };
}

const bitbucketCases: Case[] = (() => {
  const base = { provider: 'bitbucket', signer: sign.bitbucket, event: 'repo:push' };
  const built = { ...base, outcome: 'build_requested' };
  const ignored = { ...base, outcome: 'ignored' };
  const refs = { event: 'repo:refs_changed' };
  const opened = { event: 'pr:opened' };
  const short = { ...pull, commit_ref: sha.slice(0, 12) };
  return [
    { ...built, what: 'a push', payload: bitbucket.push(), request: { ...push, sender: 'bucket' } },
    { ...built, what: 'a tag', payload: bitbucket.push([{ type: 'tag', name: 'v1' }]), request: tag },
    {
      ...ignored,
      what: 'a deletion',
      payload: bitbucket.push([{ name: 'x', deleted: true }]),
      reason: /“x” was deleted/,
    },
    {
      ...ignored,
      what: 'another repository',
      payload: bitbucket.push(undefined, { name: 'a/b' }),
      reason: /a\/b” is not/,
    },
    {
      ...base,
      what: 'one that wants none',
      outcome: 'skipped',
      payload: bitbucket.push([{ name: 'main', message: '[skip ci]' }]),
    },
    { ...built, event: 'pullrequest:created', what: 'a pull request', payload: bitbucket.pull(), request: short },
    { ...built, event: 'pullrequest:updated', what: 'a changed one', payload: bitbucket.pull(), request: short },
    {
      ...ignored,
      event: 'pullrequest:fulfilled',
      what: 'a merged one',
      payload: bitbucket.pull(),
      reason: /fulfilled/,
    },
    {
      ...ignored,
      event: 'pullrequest:created',
      what: 'one of a fork',
      payload: bitbucket.pull({ head: 'stranger/code' }),
      reason: /Bitbucket Cloud has no ref/,
    },
    {
      ...built,
      ...refs,
      what: 'a push at Data Center',
      payload: center.push([{ ref: 'refs/heads/main' }]),
      request: { ...push, sender: 'admin' },
    },
    ...Object.entries({
      'a push there that wants none': { toCommit: { id: sha, message: 'Tidy [skip ci]' } },
      'one with the commits of several pushes': {
        toCommit: { id: 'e'.repeat(40), message: 'Other' },
        commits: [
          { id: 'e'.repeat(40), message: 'Other' },
          { id: sha, message: '[ci skip] Tidy' },
        ],
      },
    }).map(([what, told]) => ({
      ...base,
      ...refs,
      what,
      outcome: 'skipped',
      payload: { ...center.push([{ ref: 'refs/heads/main' }]), ...told },
    })),
    {
      ...built,
      ...refs,
      what: 'a push there of a commit beside one that wants none',
      payload: {
        ...center.push([{ ref: 'refs/heads/main' }]),
        toCommit: { id: 'e'.repeat(40), message: '[skip ci]' },
      },
      request: push,
    },
    {
      ...built,
      ...refs,
      what: 'a tag there',
      payload: center.push([{ ref: 'refs/tags/v1', type: 'ADD' }]),
      request: tag,
    },
    {
      ...ignored,
      ...refs,
      what: 'a deletion there',
      payload: center.push([{ ref: 'refs/heads/x', toHash: '0'.repeat(40), type: 'DELETE' }]),
      reason: /“x” was deleted/,
    },
    {
      ...ignored,
      ...refs,
      what: 'another repository there',
      payload: center.push([{ ref: 'refs/heads/x' }], { name: 'a/b' }),
      reason: /“A\/b” is not/,
    },
    { ...ignored, event: 'diagnostics:ping', what: 'a ping', payload: { test: true }, reason: /ping/ },
    {
      ...built,
      ...opened,
      what: 'a pull request there',
      payload: center.pull(),
      request: { ...pull, sender: 'admin' },
    },
    { ...built, event: 'pr:from_ref_updated', what: 'new commits of one there', payload: center.pull(), request: pull },
    { ...built, ...opened, what: 'one of a fork there', payload: center.pull({ head: 'x/code' }), request: fork },
    {
      ...built,
      ...opened,
      what: 'one of a fork that is gone there',
      payload: center.pull({ head: null }),
      request: fork,
    },
    { ...ignored, event: 'pr:merged', what: 'a merged one there', payload: center.pull(), reason: /“pr:merged”/ },
  ];
})();

const genericCases: Case[] = [sign.generic, sign.genericSigned].flatMap((signer) => {
  const base = { provider: 'generic', signer, event: '' };
  const built = { ...base, outcome: 'build_requested' };
  return [
    { ...built, what: 'a commit of a branch', payload: { ref: 'refs/heads/main', sha }, request: push },
    { ...built, what: 'a branch by its name', payload: { ref: 'main', sha }, request: push },
    { ...built, what: 'its tip', payload: { ref: 'main' }, request: { ...push, commit_ref: 'main' } },
    { ...built, what: 'a tag', payload: { ref: 'refs/tags/v1' }, request: { ...tag, commit_ref: 'refs/tags/v1' } },
    {
      ...built,
      what: 'what is neither, and may be anybody’s',
      payload: { ref: 'refs/pull/7/head' },
      request: { ...fork, target_branch: '', commit_ref: 'refs/pull/7/head' },
    },
    {
      ...base,
      what: 'a deleted branch, as git tells its own hooks',
      outcome: 'ignored',
      payload: { ref: 'refs/heads/x', sha: '0'.repeat(40) },
      reason: /“x” was deleted/,
    },
  ];
});

const cases: Case[] = [
  ...likeGithub('github', sign.github, 'synchronize'),
  ...likeGithub('github', sign.githubForm, 'synchronize'),
  ...likeGithub('gitea', sign.gitea, 'synchronized'),
  ...likeGithub('gitea', sign.giteaForm, 'synchronized'),
  ...gitlabCases,
  ...bitbucketCases,
  ...genericCases,
];

describeServiceOnOne('a payload of a forge', (service: Service) => {
  let owner: User;
  let project: Record_;
  let hookOf: (provider: string) => Hook;
  before(async () => {
    owner = await service.user();
    ({ project, hookOf } = await hooksOfAllProviders(owner));
  });

  for (const [provider, its] of Map.groupBy(cases, (one) => one.provider)) {
    test(`is read as ${provider} means it`, async () => {
      const hook = hookOf(provider);
      for (const { what, signer, event, payload, outcome, reason, request } of its) {
        const answer = await deliver(service.api, hook, signer(hook.secret, event, payload));
        assert.equal(answer.status, 202, `${what}: ${answer.text}`);
        const told = answer.record as Fields;
        assert.equal(told['outcome'], outcome, `${what}: ${answer.text}`);
        assert.match(String(told['reason']), reason ?? /^/, what);
        assert.equal(told['delivery_id_str'], String(told['delivery_id']), what);
        if (!request) {
          assert.deepEqual([told['build_request_id'], told['build_request_id_str']], [null, ''], what);
          continue;
        }
        const found = await owner.get(`/projects/${project.id}/build_requests/${String(told['build_request_id_str'])}`);
        const expected = { ...request, created_by: `hook:${hook.id}` };
        const shown = Object.fromEntries(Object.keys(expected).map((name) => [name, found.record[name]]));
        assert.deepEqual(shown, expected, what);
        // Whoever wrote the commit is what its committer says: that is never who did it.
        assert.ok(!['owner', 'mallory', 'opener'].includes(String(found.record['sender'])), what);
      }
    });
  }

  test('is told in the deliveries, newest first, with what came of it and why', async () => {
    const hook = hookOf('github');
    const sent = sign.github(hook.secret, 'push', github.push({ ref: 'refs/heads/x', message: '[skip ci]' }));
    const answer = await deliver(service.api, hook, sent);
    const path = `/projects/${project.id}/hooks/${hook.id}`;
    const [newest] = (await owner.get(`${path}/deliveries?limit=1`)).list;
    const { id, id_str, received_at, ...rest } = newest ?? assert.fail();
    const reason = `The message of commit ${sha} contains [skip ci].`;
    const came = { outcome: 'skipped', reason, build_request_id: null, build_request_id_str: '' };
    const place = { ref: 'refs/heads/x', sha };
    assert.deepEqual(rest, {
      event: 'push',
      action: '',
      sender: 'octocat',
      ...place,
      ...came,
      changes: [{ ...place, ...came }],
    });
    assert.deepEqual([id_str, id], [answer.record['delivery_id_str'], answer.record['delivery_id']]);
    assert.equal((await owner.get(path)).record['last_delivery_at'], received_at);
  });
});
