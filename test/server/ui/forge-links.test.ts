import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { linksAtForge } from '../../../src/server/resources/forge-links.ts';
import { linksOf as linksAt } from '../../../src/server/ui/forge-links.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunnerOnOne('links to the forge', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const linksOf = async (url: string, id = 0n) => {
    const links = linksAt(
      await linksAtForge(service.store.db.read, { id, clone_url: url, forge_id: null, forge_repository: '' }),
    );
    return links && [links.commit('c0ffee'), links.branch('fix/a b#1'), links.pullRequest(7n)];
  };

  test('are those of the forges that everybody knows', async () => {
    assert.deepEqual(await linksOf('git@github.com:Acme/River-Gauge.git'), [
      'https://github.com/Acme/River-Gauge/commit/c0ffee',
      'https://github.com/Acme/River-Gauge/tree/fix/a%20b%231',
      'https://github.com/Acme/River-Gauge/pull/7',
    ]);
    assert.deepEqual(await linksOf('git@gitlab.com:acme/water/river-gauge.git'), [
      'https://gitlab.com/acme/water/river-gauge/-/commit/c0ffee',
      'https://gitlab.com/acme/water/river-gauge/-/tree/fix/a%20b%231',
      'https://gitlab.com/acme/water/river-gauge/-/merge_requests/7',
    ]);
    assert.deepEqual(await linksOf('ssh://git@codeberg.org/acme/gauge.git'), [
      'https://codeberg.org/acme/gauge/commit/c0ffee',
      'https://codeberg.org/acme/gauge/src/branch/fix/a%20b%231',
      'https://codeberg.org/acme/gauge/pulls/7',
    ]);
    assert.deepEqual(await linksOf('git@bitbucket.org:acme/gauge.git'), [
      'https://bitbucket.org/acme/gauge/commits/c0ffee',
      'https://bitbucket.org/acme/gauge/branch/fix/a%20b%231',
      'https://bitbucket.org/acme/gauge/pull-requests/7',
    ]);
  });

  test('are none where the address of a page is not certain', async () => {
    for (const url of [
      'git@git.example.org:acme/gauge.git',
      'git@github:acme/gauge.git',
      'git@127.0.0.1:acme/gauge.git',
      'git@[::1]:acme/gauge.git',
      'git@github.com:gauge.git',
      'git@github.com:../gauge.git',
      'git@github.com:acme/..',
      'git@github.com:acme/gauge"onclick=x',
      'git@github.com:/srv/git/acme/gauge.git',
      'git@github.com.evil.example:acme/gauge.git',
      'git@github.com:acme/water/gauge.git',
    ])
      assert.equal(await linksOf(url), undefined, url);
  });

  test('are those of a forge of one’s own that the project’s status targets or hooks tell', async () => {
    const url = 'git@git.example.org:acme/gauge.git';
    const [told, hooked, elsewhere] = [
      await alice.createProject({ repository_url: url }),
      await alice.createProject({ repository_url: url }),
      await alice.createProject({ repository_url: url }),
    ];
    const gitea = { provider: 'gitea', api_url: 'https://git.example.org/api/v1', repository: 'acme/gauge' };
    await alice.createStatusTarget(told, gitea);
    await alice.post(`/projects/${hooked.id}/hooks`, { provider: 'gitlab' });
    await alice.createStatusTarget(elsewhere, { ...gitea, api_url: 'https://other.example.org/api/v1' });
    assert.equal((await linksOf(url, told.id))?.[2], 'https://git.example.org/acme/gauge/pulls/7');
    assert.equal((await linksOf(url, hooked.id))?.[2], 'https://git.example.org/acme/gauge/-/merge_requests/7');
    assert.equal(await linksOf(url, elsewhere.id), undefined);
  });

  test('stand on the pages of a request, a commit and a build, and tell the forge nothing', async () => {
    const project = await alice.createProject({ repository_url: 'git@github.com:acme/gauge.git' });
    await alice.createSuite(project);
    const request = await alice.requestBuild(project, 'main');
    await service.store.db.transaction((trx) =>
      trx
        .updateTable('build_requests')
        .set({ event: 'pull_request', pull_request: 7n, target_branch: 'stable', sender: 'ada' })
        .where('id', '=', request.id)
        .execute(),
    );
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    await task.exit(0);
    const [commit] = (await alice.get(`/projects/${project.id}/commits`)).list;
    const at = `/ui/projects/${project.id}`;
    const forge = 'https://github.com/acme/gauge';
    const sha = `${forge}/commit/${'c0ffee'.padEnd(40, '0')}`;
    const wanted: [string, string[]][] = [
      [`${at}/requests/${request.id}`, [`${forge}/tree/main`, sha, `${forge}/pull/7`, `${forge}/tree/stable`]],
      [`${at}/commits/${commit?.id}`, [sha, `${forge}/tree/main`, `${forge}/pull/7`, `${forge}/tree/stable`]],
      [
        `${at}/builds/${task.order.work.environment.HEADRACE_BUILD_ID}`,
        [sha, `${forge}/pull/7`, `${forge}/tree/stable`],
      ],
    ];
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    for (const [path, links] of wanted) {
      const { text } = await tab.get(path);
      const outward = Array.from(text.matchAll(/<a href="(https:[^"]+)"([^>]*)>/g), ([, href, more]) => [href, more]);
      assert.deepEqual(
        outward,
        links.map((href) => [href, ' rel="noreferrer"']),
        path,
      );
    }
  });
});
