import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registerApplication } from '../../support/applications.ts';
import { basic, type Answer, type Record_ } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { aCommit, describeWithRunner, type ScriptedRunner } from '../../support/runner.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';
import { readXml } from '../../support/xml.ts';

const origin = 'https://ci.example.org';

const badgeOf = (project: Record_, query = ''): string => `/projects/${project.id}/badge.svg${query}`;

/** What a screen reader says. */
function nameOf(answer: Answer): string {
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.headers['content-type'], 'image/svg+xml; charset=utf-8');
  const picture = readXml(answer.text);
  assert.equal(picture.name, 'svg');
  assert.equal(picture.attributes.role, 'img');
  const [title] = picture.children;
  assert.deepEqual([title?.name, title?.text], ['title', picture.attributes['aria-label']]);
  return picture.attributes['aria-label'] ?? '';
}

let commits = 0;
/** A commit that nothing else has. */
const freshSha = (): string => (commits += 1).toString(16).padStart(40, 'a');

async function build(runner: ScriptedRunner, user: User, project: Record_, branch: string, status: number) {
  await user.requestBuild(project, branch);
  await (
    await runner.take('fetch_commit')
  ).fetched({
    sha: freshSha(),
    ref: `refs/heads/${branch}`,
    branch,
    branches: [branch],
    defaultHead: branch === 'main' ? 'this' : 'kept',
  });
  await (await runner.take('run_suite')).exit(status);
}

describeWithRunner(
  'a badge',
  (service, runner) => {
    const look = (path: string, headers: Record<string, string> = {}) => service.api.get(path, { headers });

    test('shows anybody the state of a project, or of one of its branches', async () => {
      const alice = await service.user();
      const project = await alice.createProject({ public_badge: 'true' });
      await alice.createSuite(project);
      const state = async (query?: string) => nameOf(await look(badgeOf(project, query)));
      assert.equal(await state(), 'build: unknown');
      await build(runner, alice, project, 'main', 0);
      await build(runner, alice, project, 'topic/a&b', 1);
      assert.equal(await state(), 'build: passed');
      assert.equal(await state('?branch=main'), 'build: passed');
      assert.equal(await state('?branch=topic%2Fa%26b'), 'build: failed');
      assert.equal(await state('?branch=other'), 'build: unknown');
      // Back to an older commit by force: that is what the branch points to.
      await build(runner, alice, project, 'main', 1);
      await alice.requestBuild(project, 'main');
      const fetch = await runner.take('fetch_commit');
      assert.equal(await state('?branch=main'), 'build: failed');
      await fetch.fetched({ sha: freshSha(), branch: 'main', branches: ['main'] });
      assert.equal(await state('?branch=main'), 'build: waiting');
      const suite = await runner.take('run_suite');
      assert.equal(await state('?branch=main'), 'build: building');
      await suite.exit(0);
      assert.equal(await state('?branch=main'), 'build: passed');
      // A commit that was only ever asked for by its SHA is of the branch that it was found on.
      await alice.requestBuild(project, aCommit.sha);
      await (
        await runner.take('fetch_commit')
      ).fetched({ ref: null, branch: 'quiet', branches: ['quiet'], defaultHead: 'kept' });
      await (await runner.take('run_suite')).finish({ kind: 'unfetchable', reason: 'key_refused' });
      assert.equal(await state('?branch=quiet'), 'build: errored');
    });

    test('does not go by what a fork brings', async () => {
      const alice = await service.user();
      const project = await alice.createProject({ public_badge: 'true' });
      await alice.createSuite(project);
      await build(runner, alice, project, 'main', 0);
      const sha = freshSha();
      await trigger(service.store, project, sha, fromFork);
      await (
        await runner.take('fetch_commit')
      ).fetched({ sha, branch: '', branches: [], ref: 'refs/pull/7/head', defaultHead: 'kept' });
      await (await runner.take('run_suite')).exit(1);
      for (const query of ['', '?branch=main'])
        assert.equal(nameOf(await look(badgeOf(project, query))), 'build: passed');
    });

    test('is not kept by those who show it without asking, and costs nothing while it is the same', async () => {
      const alice = await service.user();
      const project = await alice.createProject({ public_badge: 'true' });
      const first = await look(badgeOf(project));
      assert.match(String(first.headers['cache-control']), /no-cache/);
      const tag = String(first.headers.etag);
      assert.match(tag, /^"[\w-]+"$/);
      for (const sent of [tag, `W/${tag}`, `"other", ${tag}`]) {
        const again = await look(badgeOf(project), { 'if-none-match': sent });
        assert.deepEqual([again.status, again.text, again.headers.etag], [304, '', tag]);
      }
      await alice.createSuite(project);
      await build(runner, alice, project, 'main', 0);
      const changed = await look(badgeOf(project), { 'if-none-match': tag });
      assert.equal(nameOf(changed), 'build: passed');
    });

    test('of a project that is not for everybody looks like that of none [promise: private-badges]', async () => {
      const alice = await service.user();
      const [hidden, shown] = [await alice.createProject(), await alice.createProject({ public_badge: 'true' })];
      assert.equal((await alice.put(`/projects/${shown.id}`, { public_badge: 'false' })).status, 200);
      const seen = new Set<string>();
      const paths = [hidden.id, shown.id, 1n, 9_223_372_036_854_775_807n].map((id) => `/projects/${id}/badge.svg`);
      for (const path of [...paths, '/projects/x/badge.svg', '/projects/-1/badge.svg']) {
        for (const authorization of [undefined, basic(alice.credentials)]) {
          const answer = await look(`${path}?branch=main`, authorization === undefined ? {} : { authorization });
          assertRefused(answer, 404, { generic: ['not_found'] });
          const { 'x-request-id': _, date: __, ...headers } = answer.headers;
          seen.add(JSON.stringify(headers));
        }
      }
      assert.equal(seen.size, 1, [...seen].join('\n'));
    });

    test('says nothing that somebody else put there', async () => {
      const alice = await service.user();
      const project = await alice.createProject({
        public_badge: 'true',
        name: '</title><script>alert(1)</script>',
        description: 'secret words',
      });
      const evil = '"/><script>alert(2)</script><!--';
      const answer = await look(badgeOf(project, `?branch=${encodeURIComponent(evil)}&x=<script>`));
      assert.equal(nameOf(answer), 'build: unknown');
      for (const word of ['script', 'alert', 'secret', 'git@']) assert.ok(!answer.text.includes(word), word);
      assert.equal(answer.headers['content-security-policy'], "default-src 'none'");
      assert.equal(answer.headers['x-content-type-options'], 'nosniff');
      assertRefused(await look(badgeOf(project, `?branch=${'x'.repeat(256)}`)), 403, { branch: ['invalid_format'] });
    });
  },
  { settings: { base_url: origin } },
);

describeWithRunner(
  'the feed for monitors',
  (service, runner) => {
    const read = async (user: User) => {
      const answer = await user.get('/cctray.xml');
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.headers['content-type'], 'application/xml; charset=utf-8');
      const document = readXml(answer.text);
      assert.equal(document.name, 'Projects');
      return document.children.map(({ name, attributes }) => {
        assert.equal(name, 'Project');
        return attributes;
      });
    };

    test('tells how each project stands and what became of its last build', async () => {
      const alice = await service.user();
      assert.deepEqual(await read(alice), []);
      const name = `<&>"' \u{1F6A7} ]]> \uFFFF é`;
      const project = await alice.createProject({ name });
      await alice.createSuite(project);
      const one = async () => {
        const [attributes, ...others] = await read(alice);
        assert.deepEqual(others, []);
        return attributes ?? {};
      };
      const fresh = await one();
      const names = ['name', 'activity', 'lastBuildStatus', 'lastBuildLabel', 'lastBuildTime', 'webUrl'];
      assert.deepEqual(Object.keys(fresh), names);
      assert.equal(fresh.name, name.replace('\uFFFF', '\uFFFD'));
      assert.equal(fresh.webUrl, `${origin}/ui/projects/${project.id}`);
      assert.ok(!Number.isNaN(Date.parse(fresh.lastBuildTime ?? '')));
      const stands = async () => {
        const { activity, lastBuildStatus } = await one();
        return [activity, lastBuildStatus];
      };
      assert.deepEqual(await stands(), ['Sleeping', 'Unknown']);
      await alice.requestBuild(project);
      assert.deepEqual(await stands(), ['CheckingModifications', 'Unknown']);
      await (await runner.take('fetch_commit')).fetched();
      assert.deepEqual(await stands(), ['Building', 'Unknown']);
      await (await runner.take('run_suite')).exit(0);
      assert.deepEqual(await stands(), ['Sleeping', 'Success']);
      assert.equal((await one()).lastBuildLabel, aCommit.sha.slice(0, 10));
      const finished = Date.parse((await one()).lastBuildTime ?? '');
      assert.ok(Math.abs(finished - Date.now()) < 60_000);
      // What is tried beside the default branch is not how the project stands.
      await build(runner, alice, project, 'topic', 1);
      assert.deepEqual(await stands(), ['Sleeping', 'Success']);
      await build(runner, alice, project, 'main', 3);
      assert.deepEqual(await stands(), ['Sleeping', 'Failure']);
      await alice.requestBuild(project, 'main');
      await (await runner.take('fetch_commit')).fetched({ sha: freshSha() });
      assert.deepEqual(await stands(), ['Building', 'Failure']);
      await (await runner.take('run_suite')).finish({ kind: 'unfetchable', reason: 'key_refused' });
      assert.deepEqual(await stands(), ['Sleeping', 'Exception']);
    });

    test('is that of the caller alone, by key or token [promise: account-walls]', async () => {
      const [alice, bob] = [await service.user(), await service.user()];
      const own = await alice.createProject({ name: 'of alice' });
      const shared = await bob.createProject({ name: 'of bob, shared' });
      await bob.createProject({ name: 'of bob' });
      await bob.invite(shared, alice);
      const names = (list: Record<string, string>[]) => list.map(({ name }) => name);
      assert.deepEqual(names(await read(alice)), [own.name, shared.name]);
      assert.deepEqual(names(await read(bob)), ['of bob, shared', 'of bob']);
      assertRefused(await service.api.get('/cctray.xml'), 401, { generic: ['unauthorized'] });
      const application = await registerApplication(service, alice, { name: 'Lamp' });
      for (const [scopes, status] of [
        [['projects'], 200],
        [['commits'], 401],
      ] as const) {
        const token = await application.token(alice, [...scopes]);
        const answer = await service.api.get('/cctray.xml', { headers: { authorization: `Bearer ${token}` } });
        assert.equal(answer.status, status);
        if (status === 200) assert.ok(!answer.text.includes('name="of bob"'));
      }
      await service.stopPaying(alice);
      assert.deepEqual(names(await read(alice)), [shared.name]);
    });
  },
  { settings: { base_url: `${origin}/` } },
);
