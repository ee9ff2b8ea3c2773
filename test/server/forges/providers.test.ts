import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { deliver, sign, type Sent } from '../inbound-hooks/forge.ts';
import { bitbucket, center, github, gitlab, sha as pushed } from '../inbound-hooks/payloads.ts';
import type { Record_ } from '../../support/client.ts';
import { assertDestroyed } from '../../support/expect.ts';
import { FakeForge, forgeToken, type Dialect, type ForgeCall } from '../../support/fake-forge.ts';
import { publicly } from '../../support/public-forge.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const proposed = 'facade'.padEnd(40, '1');
const theirs = { sha: proposed, head: 'stranger/code' };

interface Provider {
  dialect: Dialect;
  /** The one that everybody knows, and not one at an address of its own. */
  isPublic?: true;
  /** The folder of its address. */
  folder?: string;
  push: (secret: string) => Sent;
  pull: (secret: string) => Sent;
  /** What it is told that passed, and of what waits. */
  states: [passed: string, waiting: string];
}

const githubStates: Provider['states'] = ['success', 'pending'];
const bitbucketStates: Provider['states'] = ['SUCCESSFUL', 'INPROGRESS'];
const atGithub = {
  push: (secret: string) => sign.github(secret, 'push', github.push()),
  pull: (secret: string) => sign.github(secret, 'pull_request', github.pull(theirs)),
  states: githubStates,
};

const providers: Record<string, Provider> = {
  GitHub: { dialect: 'github', isPublic: true, ...atGithub },
  'GitHub Enterprise Server': { dialect: 'github', ...atGithub },
  GitLab: {
    dialect: 'gitlab',
    isPublic: true,
    push: (secret) => sign.gitlabSigned(secret, 'Push Hook', gitlab.push()),
    pull: (secret) => sign.gitlabSigned(secret, 'Merge Request Hook', gitlab.merge(theirs)),
    states: githubStates,
  },
  'an older GitLab in a folder of its host': {
    dialect: 'gitlab',
    folder: '/gitlab',
    push: (secret) => sign.gitlab(secret, 'Push Hook', gitlab.push()),
    pull: (secret) => sign.gitlab(secret, 'Merge Request Hook', gitlab.merge(theirs)),
    states: githubStates,
  },
  Gitea: {
    dialect: 'gitea',
    push: (secret) => sign.gitea(secret, 'push', github.push()),
    pull: (secret) => sign.gitea(secret, 'pull_request', github.pull(theirs)),
    states: githubStates,
  },
  'Bitbucket Cloud': {
    dialect: 'cloud',
    isPublic: true,
    push: (secret) => sign.bitbucket(secret, 'repo:push', bitbucket.push()),
    pull: (secret) => sign.bitbucket(secret, 'pullrequest:created', bitbucket.pull(theirs)),
    states: bitbucketStates,
  },
  'Bitbucket Data Center': {
    dialect: 'center',
    push: (secret) => sign.bitbucket(secret, 'repo:refs_changed', center.push([{ ref: 'refs/heads/main' }])),
    pull: (secret) => sign.bitbucket(secret, 'pr:opened', center.pull(theirs)),
    states: bitbucketStates,
  },
};

const many = 3000;

describeWithRunnerOnOne(
  'the way from a token to a status',
  (service, runner) => {
    async function begin(t: TestContext, { dialect, isPublic, folder = '' }: Provider) {
      const forge = await FakeForge.start(dialect);
      t.after(() => forge[Symbol.asyncDispose]());
      Object.assign(forge, { folder, pageSize: 100 });
      for (let at = 1; at < many; at += 1) forge.add(`team/r${at}`);
      const https = `https://example.org${folder}${dialect === 'center' ? '/scm' : ''}/team/code.git`;
      forge.add('team/code', { ssh: 'git@example.org:team/code.git', https });
      const alice = await service.user();
      const made = await alice.post('/forges', isPublic ? publicly(t, forge) : forge.fields);
      assert.equal(made.status, 201, made.text);
      return { forge, alice, https, connected: made.record };
    }

    /** All pages of a list, and in how many requests of the forge. */
    async function listed(alice: User, first: string): Promise<Record_[]> {
      const found: Record_[] = [];
      for (let next: string | undefined = first; next !== undefined;) {
        const page = await alice.get(next);
        assert.equal(page.status, 200, page.text);
        found.push(...page.list);
        const [, address] = /<([^>]*)>; rel="next"/.exec(String(page.headers.link)) ?? [];
        const url = address === undefined ? undefined : new URL(address);
        next = url && `${url.pathname}${url.search}`;
      }
      return found;
    }

    const isStatus = ({ method, path }: ForgeCall): boolean => method === 'POST' && /\/statuses\/|\/builds$/.test(path);

    /** Waits until the forge was told this of a commit. */
    async function told(forge: FakeForge, sha: string, context: string, state: string): Promise<ForgeCall> {
      const fits = ({ path, body }: ForgeCall): boolean =>
        path.includes(sha) && body.state === state && [body.context, body.name, body.key].includes(context);
      for (const began = Date.now(); ; await pause(10)) {
        const found = forge.calls.find((call) => isStatus(call) && fits(call));
        if (found) return found;
        const all = forge.calls.filter(isStatus).map(({ path, body }) => [path, body]);
        assert.ok(Date.now() - began < longestWait, JSON.stringify(all));
      }
    }

    for (const [name, provider] of Object.entries(providers)) {
      test(`${name}: repositories, one step, a push, a fork, and nothing left`, async (t) => {
        const { forge, alice, https, connected } = await begin(t, provider);
        const list = `/forges/${connected.id}/repositories`;
        assert.equal(new Set((await listed(alice, list)).map((one) => one.full_name)).size, many);
        const before = forge.calls.length;
        const found = await listed(alice, `${list}?query=r2999`);
        assert.deepEqual(
          found.map((one) => one.full_name),
          ['team/r2999'],
        );
        assert.ok(forge.calls.length - before <= many / 100, 'no more than its pages');

        const wanted = { forge_id: connected.id, repository: 'team/code', fork_builds: 'approval' };
        const made = await alice.post('/projects', wanted);
        assert.equal(made.status, 201, made.text);
        const path = `/projects/${made.record.id}`;
        await alice.createSuite(made.record, { name: 'unit' });
        const [hook] = forge.of('team/code').hooks;
        assert.ok(hook);
        const call = async (sent: Sent): Promise<Record_> => {
          const answer = await deliver(service.api, { id: BigInt(hook.url.split('/').at(-1) ?? '') }, sent);
          assert.ok(answer.status < 300, answer.text);
          return answer.record;
        };
        const build = async (sha: string) => {
          await (await runner.take('fetch_commit')).fetched(sha === pushed ? {} : { sha, branches: [], branch: null });
          await (await runner.take('run_suite')).exit(0);
        };
        const [passed, waiting] = provider.states;

        assert.equal((await call(provider.push(hook.secret))).outcome, 'build_requested');
        // It says back what it was sent.
        forge.interfere = (one) =>
          isStatus(one) ? { status: 201, body: { message: `thank you for ${forgeToken}` } } : undefined;
        await build(pushed);
        const status = await told(forge, pushed, 'headrace/unit', passed);
        assert.match(String(status.body.target_url ?? status.body.url), /\/ui\//);

        const asked = await call(provider.pull(hook.secret));
        if (provider.dialect === 'cloud') assert.match(String(asked.reason), /no ref for a fork/);
        else {
          assert.equal(asked.outcome, 'waiting_for_approval');
          await told(forge, proposed, 'headrace', waiting);
          const request = `${path}/build_requests/${String(asked.build_request_id_str)}`;
          assert.equal((await alice.post(`${request}/approve`)).status, 200);
          await build(proposed);
          await told(forge, proposed, 'headrace/unit', passed);
          assert.equal((await alice.get(request)).record.from_fork, true);
        }

        const [target] = (await alice.get(`${path}/status_targets`)).list;
        // The forge has the call before its answer is kept here.
        let deliveries = '';
        for (const began = Date.now(); !/thank you for \[masked\]/.test(deliveries); await pause(10)) {
          assert.ok(Date.now() - began < longestWait, deliveries);
          deliveries = (await alice.get(`${path}/status_targets/${target?.id}/deliveries`)).text;
        }
        assertDestroyed(await alice.delete(path));
        const { keys, hooks } = forge.of('team/code');
        assert.deepEqual([keys, hooks], [[], []]);

        // One by hand, at the address that people copy there, is known by it.
        const { record: byHand } = await alice.post('/projects', { name: 'by hand', clone_url: https });
        assert.equal((await listed(alice, `${list}?query=code`))[0]?.project_id, byHand.id);
        const joined = await alice.post(`/projects/${byHand.id}/connect`, { forge_id: connected.id });
        assert.equal(joined.record.forge_repository, 'team/code', joined.text);
        for (const text of [deliveries, service.log, (await alice.get('/forges')).text])
          assert.ok(!text.includes(forgeToken));
      });
    }
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
