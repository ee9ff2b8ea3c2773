import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { AuditWatch } from '../../support/audit.ts';
import { addBuild, addCommit } from '../../support/rows.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';

const hostile = '"><img src=x onerror=alert(1)>';

/** Every page of a project that is served here, with the API's names for what stands in the path. */
const projectPages = [
  '/projects/:project_id',
  '/projects/:project_id/setup',
  '/projects/:project_id/requests/:build_request_id',
  '/projects/:project_id/commits/:commit_id',
  '/projects/:project_id/builds/:build_id',
  '/projects/:project_id/builds/:build_id/tests',
  '/projects/:project_id/builds/:build_id/artifacts',
  '/projects/:project_id/builds/:build_id/details',
];

describeServiceOnOne('pages over the API', (service) => {
  let alice: User;
  let tab: Tab;
  let world: World;
  before(async () => {
    alice = await service.user();
    world = await buildWorld(service, alice);
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });
  const tabOf = async (user: User): Promise<Tab> => {
    const its = new Tab(service);
    await its.signIn(user.credentials);
    return its;
  };
  const pageOf = (path: string): string =>
    `/ui${world.path(path.replace('/requests/', '/build_requests/')).replace('/build_requests/', '/requests/')}`;

  test('a form does what the API does, and the audit log is told that it was a browser', async () => {
    const audit = await AuditWatch.begin(service);
    const page = await tab.get('/ui/projects/new');
    const pasted = 'https://me@example.org/a/b/?tab=readme';
    const fields = { name: 'by a page', clone_url: pasted, description: 'one\r\ntwo' };
    const made = await tab.submit(page, '/ui/projects/new', { do: 'create', ...fields });
    assert.equal(made.status, 303);
    const [, id = ''] = /^\/ui\/projects\/(\d+)\/setup$/.exec(String(made.headers.location)) ?? assert.fail();
    const { record } = await alice.get(`/projects/${id}`);
    assert.deepEqual(
      [record.name, record.description, record.clone_url],
      ['by a page', 'one\ntwo', 'https://example.org/a/b'],
    );
    const setup = await tab.get(String(made.headers.location));
    assert.match(setup.text, /over HTTPS\. That needs no key/);
    assert.doesNotMatch(setup.text, /ssh-ed25519/);
    const [entry] = await audit.news();
    assert.deepEqual([entry?.action, entry?.via, entry?.actor?.email], ['project.created', 'session', alice.email]);
  });

  test('an error is shown at its field, and the typed text stays', async () => {
    await alice.createProject({ name: 'taken' });
    const page = await tab.get('/ui/projects/new');
    const typed = { name: 'taken', clone_url: `https://nowhere${hostile}`, description: `kept ${hostile}` };
    const refused = await tab.submit(page, '/ui/projects/new', { do: 'create', ...typed });
    assert.equal(refused.status, 403);
    const field = (name: string): string => new RegExp(`<[^<]*\\bname="${name}"[^>]*>`).exec(refused.text)?.[0] ?? '';
    assert.match(field('name'), /value="taken"[^>]*/);
    assert.match(field('name'), /aria-invalid="true"/);
    assert.match(field('clone_url'), /aria-invalid="true"/);
    assert.match(refused.text, /Name is already in use\./);
    assert.match(refused.text, /This is no address of a repository, such as/);
    assert.ok(refused.text.includes('kept &quot;&gt;&lt;img') && !refused.text.includes('<img'));
  });

  test('pages of others are not there, and who is not signed in signs in first [promise: account-walls]', async () => {
    const stranger = await tabOf(await service.user());
    const friend = await service.user();
    await alice.invite(world.project, friend);
    const theirs = await tabOf(friend);
    for (const path of projectPages) {
      assert.equal((await tab.get(pageOf(path))).status, 200, path);
      assert.equal((await theirs.get(pageOf(path))).status, 200, path);
      assert.equal((await stranger.get(pageOf(path))).status, 404, path);
      const asked = await new Tab(service).get(pageOf(path));
      assert.deepEqual([asked.status, String(asked.headers.location).startsWith('/ui/sign-in?')], [303, true], path);
    }
    const own = await tab.get(pageOf('/projects/:project_id'));
    const [, key = ''] = /name="form_key" value="([\w-]+)"/.exec(own.text) ?? [];
    assert.notEqual(key, '');
    const their = /name="form_key" value="([\w-]+)"/.exec((await stranger.get('/ui/')).text)?.[1] ?? '';
    const sent = { form_key: their, do: 'run', commit_ref: 'main' };
    assert.equal((await stranger.post(pageOf('/projects/:project_id'), sent)).status, 404);
  });

  test('a form without its key, or of another site, does nothing [promise: browser-credentials]', async () => {
    const path = pageOf('/projects/:project_id');
    const page = await tab.get(path);
    const requests = async (): Promise<number> =>
      (await alice.get(`/projects/${world.project.id}/build_requests`)).list.length;
    const before = await requests();
    const form = { do: 'run', commit_ref: 'main' };
    assert.equal((await tab.post(path, form)).status, 403);
    assert.equal((await tab.post(path, { ...form, form_key: 'x'.repeat(86) })).status, 403);
    assert.equal((await tab.submit(page, path, form, { 'sec-fetch-site': 'cross-site' })).status, 403);
    const other = await tabOf(await service.user());
    const [, foreign = ''] = /name="form_key" value="([\w-]+)"/.exec((await other.get('/ui/')).text) ?? [];
    assert.equal((await tab.post(path, { ...form, form_key: foreign })).status, 403);
    assert.equal(await requests(), before);
    const ran = await tab.submit(page, path, form);
    assert.equal(ran.status, 303);
    assert.equal(await requests(), before + 1);
  });

  test('scripts of pages read what they need under /ui/data; nobody else does [promise: browser-credentials]', async () => {
    const path = `${world.path('/projects/:project_id/builds/:build_id')}/log/view`;
    const read = await tab.get(`/ui/data${path}`);
    assert.deepEqual([read.status, Array.isArray(read.record.lines)], [200, true]);
    const streamed = await tab.get(`/ui/data${world.path('/projects/:project_id/builds/:build_id')}/log.txt`);
    assert.match(String(streamed.headers['content-type']), /^text\/plain/);
    // The cookie opens nothing of the API's own, and another site's page gets nothing here: no CORS, no JSON-P.
    assert.equal((await tab.get(`/projects/${world.project.id}`)).status, 401);
    // What no script asks for is not there.
    assert.equal((await tab.get(`/ui/data/projects/${world.project.id}`)).status, 404);
    for (const site of ['cross-site', 'same-site']) {
      assert.equal((await tab.get(`/ui/data${path}`, { 'sec-fetch-site': site })).status, 401);
      assert.equal((await tab.get('/ui/data/changes', { 'sec-fetch-site': site })).status, 401);
    }
    const wrapped = await tab.get(`/ui/data${path}?callback=steal`);
    assert.match(String(wrapped.headers['content-type']), /^application\/json/);
    assert.ok(!wrapped.text.startsWith('steal'));
    assert.equal(read.headers['access-control-allow-origin'], undefined);
    assert.equal(read.headers['cross-origin-resource-policy'], 'same-origin');
    assert.equal((await new Tab(service).get(`/ui/data${path}`)).status, 401);
    assert.equal((await (await tabOf(await service.user())).get(`/ui/data${path}`)).status, 404);
  });

  test('no page runs what is not ours, nor stands in another’s frame [promise: browser-credentials]', async () => {
    for (const path of ['/ui/', '/ui/projects/new', ...projectPages.map(pageOf)]) {
      const { headers, text } = await tab.get(path);
      const policy = String(headers['content-security-policy']);
      assert.ok(!policy.includes('unsafe'), policy);
      assert.match(policy, /^default-src 'none'; .*script-src 'nonce-[\w+/]{22}=='; .*frame-ancestors 'none'/);
      assert.equal(headers['x-frame-options'], 'DENY');
      // Nothing is written into a page that would need more than that.
      assert.doesNotMatch(text, /<script(?! type="module" nonce="[^"]{24}" src="\/ui\/)|\son\w+=|\sstyle=|javascript:/);
      const scripts = Array.from(
        text.matchAll(/(?:src|href)="(\/ui\/[\w-]+\.\w{16}\.js)"/g),
        ([, address = '']) => address,
      );
      const sizes = await Promise.all(
        scripts.map(async (script) => gzipSync((await service.api.get(script)).text).length),
      );
      assert.ok(sizes.length > 0 && sizes.reduce((sum, size) => sum + size, 0) < 30_000, `${path}: ${sizes.join()}`);
    }
  });

  test('text from strangers is shown as text: names, branches, messages, authors and logs', async () => {
    const project = await alice.createProject({ name: `p ${hostile}`, description: hostile });
    const suite = await alice.createSuite(project, { name: `s ${hostile}` });
    await alice.createSuite(project, { name: 'left out' });
    const { store } = service;
    const other = (await alice.get(`/projects/${project.id}/suites`)).list.at(-1);
    const rule = { subject: 'commit.branches', operator: 'equals', value: `release ${hostile}` };
    await alice.post(`/projects/${project.id}/suites/${String(other?.id)}/rules`, rule);
    const commit = await addCommit(store, project, {
      message: `m ${hostile}\u001B[31m`,
      scm_author_name: hostile,
      branches: JSON.stringify([hostile]),
      branch: hostile,
      files: JSON.stringify([hostile]),
      build_state: 'passed',
    });
    const request = await alice.requestBuild(project, 'main');
    await store.db.transaction(async (trx) => {
      const fetched = { commit_id: commit.id, build_state: 'passed', fetch: 'done' };
      await trx.updateTable('build_requests').set(fetched).where('id', '=', request.id).execute();
    });
    const build = await addBuild(store, project, { commit, buildRequest: request, suite }, { build_state: 'failed' });
    const said = `first\n\u001B[31mred ${hostile}\u001B[0m \u001B]8;;javascript:alert(1)\u0007link\u001B]8;;\u0007\n`;
    await store.db.transaction(async (trx) => {
      const [bytes, log] = [Buffer.from(said), build.id];
      const row = { project_id: project.id, size: BigInt(bytes.length), complete: 1, line_breaks: 2n };
      await trx
        .insertInto('logs')
        .values({ id: log, ...row })
        .execute();
      await trx.insertInto('log_chunks').values({ log_id: log, start: 0n, bytes }).execute();
    });
    const root = `/ui/projects/${project.id}`;
    const paths = [
      root,
      `${root}/requests/${request.id}`,
      `${root}/commits/${commit.id}`,
      `${root}/builds/${build.id}`,
    ];
    for (const path of ['/ui/', `${root}/setup`, ...paths, `${root}?branch=${encodeURIComponent(hostile)}`]) {
      const { status, text } = await tab.get(path);
      assert.equal(status, 200, path);
      assert.ok(!text.includes('<img'), path);
      assert.ok(text.includes('&lt;img'), path);
      assert.doesNotMatch(text, /[^\P{Cc}\t\n]/u, path);
    }
    const shown = (await tab.get(`${root}/requests/${request.id}`)).text;
    assert.ok(shown.includes('<code>red &quot;&gt;&lt;img'), 'the last line it said, without control sequences');
    assert.match(shown, /Its rule commit\.branches equals release [^<]* does not match: the commit has/);
  });

  test('one page holds so many commits, and a branch is looked for on all of them', async () => {
    const project = await alice.createProject();
    for (let number = 0; number < 30; number += 1) {
      const branch = number === 2 ? 'rare' : 'main';
      const branches = JSON.stringify([branch]);
      await addCommit(service.store, project, { message: `number ${number}!`, branch, branches });
    }
    const path = `/ui/projects/${project.id}`;
    const first = await tab.get(path);
    assert.ok(first.text.includes('number 29!') && !first.text.includes('number 4!'));
    const [, older = ''] = /href="([^"]+)" rel="next"/.exec(first.text) ?? assert.fail('there are older ones');
    const second = await tab.get(older.replaceAll('&amp;', '&'));
    assert.ok(second.text.includes('number 4!') && !second.text.includes('number 29!'));
    const rare = await tab.get(`${path}?branch=rare`);
    assert.ok(rare.text.includes('number 2!') && !rare.text.includes('number 29!'));
    assert.match((await tab.get(`${path}?branch=none`)).text, /No commits/);
  });

  test('the dashboard shows what a person may see, and filters it by name without scripts', async () => {
    const [bob, carol] = [await service.user(), await service.user()];
    const own = await bob.createProject({ name: 'own one' });
    const shared = await carol.createProject({ name: 'shared one' });
    await carol.createProject({ name: 'hidden one' });
    await carol.invite(shared, bob);
    for (const state of ['passed', 'failed', 'passed']) await addCommit(service.store, own, { build_state: state });
    await bob.requestBuild(own, 'newer');
    const his = await tabOf(bob);
    const { text } = await his.get('/ui/');
    for (const seen of ['own one', 'shared one', 'You collaborate on it', 'Mend the sluice']) {
      assert.ok(text.includes(seen), seen);
    }
    assert.ok(!text.includes('hidden one'));
    const filtered = (await his.get('/ui/?filter=SHARED')).text;
    // His own requests are listed above, whatever the filter.
    assert.deepEqual(
      Array.from(filtered.matchAll(/class="project" data-name="([^"]*)"/g), ([, name]) => name),
      ['shared one'],
    );
    await bob.invite(own, { email: 'newcomer@example.org' });
    assert.match((await his.get('/ui/')).text, /without a password: newcomer@example\.org\./);
    await service.stopPaying(bob);
    const unpaid = (await his.get('/ui/')).text;
    assert.ok(unpaid.includes('unpaid') && unpaid.includes('shared one') && !unpaid.includes('own one'));
    assert.equal((await his.get(`/ui/projects/${own.id}`)).status, 402);
  });
});
