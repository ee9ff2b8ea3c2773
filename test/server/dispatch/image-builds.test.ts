import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { CommitReport, SuiteOrder } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { aCommit, describeWithRunner, describeWithRunnerOnOne } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const words = 'The operator of this server does not let builds make images (HEADRACE_IMAGE_BUILDS).';
const onTopic = { branches: ['topic'], branch: 'topic', defaultHead: 'kept' as const };
let number = 0;
const newSha = (): string => (number += 1).toString(16).padStart(40, 'c');

describeWithRunner(
  'a suite that builds images',
  (service, runner) => {
    let alice: User;
    let project: Record_;
    let path: string;
    before(async () => {
      alice = await service.user();
      project = await alice.createProject({ config_file: '.headrace.yml' });
      path = `/projects/${project.id}`;
      for (const host of ['one.example.org', 'two.example.org:5000'])
        assert.equal(
          (await alice.post('/registries', { host, username: 'robot', password: `of ${host}` })).status,
          201,
        );
      const other = await service.user();
      await other.post('/registries', { host: 'other.example.org', username: 'robot', password: 'of another' });
    });
    const both = {
      registries: ['one.example.org', 'two.example.org:5000'].map((host) => ({
        host,
        username: 'robot',
        password: `of ${host}`,
      })),
    };
    const none = { registries: [] };

    /** The orders of a commit with this file, or without one, by the names of their suites. */
    const orders = async (
      text: string | undefined,
      commit: Partial<CommitReport>,
    ): Promise<Map<string, SuiteOrder>> => {
      await alice.post(`${path}/build_requests`, { commit_ref: 'topic' });
      const task = await runner.take('fetch_commit');
      const at = { path: task.order.work.configFile ?? '', before: null };
      const config = text === undefined ? { isAbsent: true as const, ...at } : { text, ...at };
      const sent = { kind: 'fetched' as const, commit: { ...aCommit, sha: newSha(), ...commit } };
      assert.deepEqual(await task.finish({ ...sent, config }), { taken: true });
      const found = new Map<string, SuiteOrder>();
      for (let left = text === undefined ? 2 : text.split('name:').length - 1; left > 0; left -= 1) {
        const ordered = await runner.take('run_suite');
        found.set(ordered.order.work.environment['HEADRACE_SUITE'] ?? '', ordered.order.work);
        await ordered.exit(0);
      }
      return found;
    };

    test('has the registries of its account, and no fork has them [promise: registry-passwords]', async () => {
      const suite = await alice.createSuite(project, { name: 'image', builds_images: 'true' });
      assert.equal(suite.builds_images, true);
      await alice.createSuite(project, { name: 'unit' });
      const own = await orders(undefined, onTopic);
      assert.deepEqual(own.get('image')?.imageBuilds, both);
      assert.equal(own.get('unit')?.imageBuilds, undefined);
      assert.ok(!JSON.stringify(own.get('unit')).includes('of one'));
      const forks = await orders(undefined, { branches: [], branch: null, ref: 'refs/pull/3/head' });
      assert.deepEqual(forks.get('image')?.imageBuilds, none);
      assert.equal(forks.get('unit')?.imageBuilds, undefined);
    });

    test('is trusted with passwords by the project, and not by the file of a branch [promise: registry-passwords]', async () => {
      const file = ['image', 'unit', 'new'].map((name) => `  - {name: ${name}, command: y, builds_images: true}\n`);
      const text = `suites:\n${file.join('')}`;
      const untrusted = await orders(text, onTopic);
      assert.deepEqual(untrusted.get('image')?.imageBuilds, both);
      assert.deepEqual(untrusted.get('unit')?.imageBuilds, none);
      assert.deepEqual(untrusted.get('new')?.imageBuilds, none);
      await alice.put(path, { branch_secrets: 'true' });
      const trusted = await orders(text, onTopic);
      for (const name of ['image', 'unit', 'new']) assert.deepEqual(trusted.get(name)?.imageBuilds, both, name);
    });

    test('is said on its page, and in a document', async () => {
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const suites = (await alice.get(`${path}/suites`)).list;
      const unit = suites.find(({ name }) => name === 'unit');
      const page = `/ui${path}/settings/suites/${unit?.id}`;
      const shown = await tab.get(page);
      assert.match(shown.text, /<input[^>]*type="checkbox"[^>]*name="builds_images"(?![^>]*checked)/);
      const saved = await tab.submit(shown, page, { do: 'save', name: 'unit', command: 'make', builds_images: 'true' });
      assert.equal(saved.status, 303, saved.text);
      assert.equal((await alice.get(`${path}/suites/${unit?.id}`)).record.builds_images, true);
      assert.match((await tab.get(page)).text, /name="builds_images"[^>]*checked/);
      const { document } = (await alice.get(`${path}/config`)).record;
      assert.equal(String(document).match(/"builds_images":true/g)?.length, 2);
    });
  },
  { settings: { image_builds: 'on' } },
);

describeWithRunnerOnOne('where suites may not build images', (service, runner) => {
  let alice: User;
  let project: Record_;
  let path: string;
  before(async () => {
    alice = await service.user();
    project = await alice.createProject({ config_file: '.headrace.yml' });
    path = `/projects/${project.id}`;
  });
  const refused = { error: { builds_images: ['invalid_format'] }, message: words };

  test('it is refused when a suite is saved, in words', async () => {
    const fields = { name: 'image', command: 'buildah bud .', builds_images: 'true' };
    const created = await alice.post(`${path}/suites`, fields);
    assert.deepEqual([created.status, JSON.parse(created.text)], [403, refused]);
    const suite = await alice.createSuite(project, { ...fields, builds_images: 'false' });
    const changed = await alice.put(`${path}/suites/${suite.id}`, { builds_images: 'true' });
    assert.deepEqual([changed.status, JSON.parse(changed.text)], [403, refused]);
    assert.equal((await alice.get(`${path}/suites/${suite.id}`)).record.builds_images, false);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const page = `/ui${path}/settings/suites/${suite.id}`;
    const shown = await tab.get(page);
    assert.doesNotMatch(shown.text, /builds_images/);
    const sent = { do: 'save', name: 'image', command: 'make', builds_images: 'true' };
    const said = await tab.submit(shown, page, sent);
    assert.equal(said.status, 403);
    assert.ok(said.text.includes('The operator of this server does not let builds make images'), said.text);
  });

  test('so is a document, and the file of a branch or of the default branch, with its line', async () => {
    const suites = [{ name: 'image', command: 'buildah bud .', builds_images: true }];
    const { name, repository_url } = project;
    const document = JSON.stringify({ name, repository_url, suites });
    const applied = await alice.put(`${path}/config`, { document, prune: 'true' });
    assert.deepEqual(JSON.parse(applied.text), {
      error: { 'suites[image][builds_images]': ['invalid_format'] },
      message: words,
    });
    const text = 'suites:\n  - name: image\n    command: buildah bud .\n    builds_images: true\n';
    for (const commit of [onTopic, {}]) {
      const { record } = await alice.post(`${path}/build_requests`, { commit_ref: 'main' });
      const task = await runner.take('fetch_commit');
      const config = { text, path: task.order.work.configFile ?? '', before: null };
      await task.finish({ kind: 'fetched', commit: { ...aCommit, sha: newSha(), ...commit }, config });
      const request = (await alice.get(`${path}/build_requests/${record.id}`)).record;
      assert.deepEqual([request.build_state, request.failure_reason], ['errored', 'configuration_invalid']);
      const log = (await alice.get(`${path}/build_requests/${record.id}/log.txt`)).text;
      assert.ok(log.includes(`.headrace.yml:4: suites[image][builds_images] is refused: ${words}`), log);
    }
  });
});
