import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Role } from '../../../src/server/http/route.ts';
import { routes } from '../../../src/server/resources/index.ts';
import { appendLog, beginLog, completeLog } from '../../../src/server/streams/logs.ts';
import { allRoutes } from '../../../src/server/ui/index.ts';
import type { Answer } from '../../support/client.ts';
import { eventsOf, Listener } from '../../support/firehose.ts';
import { describeService, describeServiceOnOne, type Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';

/** All of it is in the project, and the public must see none of it. */
const secrets = {
  author: 'author-leak@people.example',
  committer: 'committer-leak@people.example',
  approver: 'approver-leak@people.example',
  sender: 'sender-leak@people.example',
  asked: 'LEAK_ASKED',
  askedContent: 'leak-asked-content',
  withheld: 'LEAK_WITHHELD',
  variable: 'LEAK_VARIABLE',
  content: 'leak-content',
  fetched: 'leak-fetch-address',
  command: 'leak-command',
  step: 'leak-step',
  strategy: 'deploy@example.org',
  forge: 'leak-forge',
};

const projectPages = allRoutes.filter(({ method, path }) => method === 'GET' && path.startsWith('/ui/projects/:'));
const openPages = [
  '',
  '/commits/:commit_id',
  '/requests/:build_request_id',
  ...['', '/tests', '/artifacts', '/artifacts/:artifact_id', '/details', '/services/:service_name'].map(
    (tab) => `/builds/:build_id${tab}`,
  ),
  '/tests',
  '/tests/history',
].map((path) => `/ui/projects/:project_id${path}`);

async function fill({ store }: Service, world: World): Promise<void> {
  const [commit, request, build] = [':commit_id', ':build_request_id', ':build_id'].map((id) => BigInt(world.path(id)));
  const now = BigInt(Date.now());
  const { db } = store;
  await db.transaction((trx) =>
    trx
      .updateTable('commits')
      .set({ scm_author_email: secrets.author, scm_committer_email: secrets.committer, build_state: 'failed' })
      .where('id', '=', commit ?? 0n)
      .execute(),
  );
  await db.transaction((trx) =>
    trx
      .updateTable('build_requests')
      .set({ variables: JSON.stringify({ [secrets.asked]: secrets.askedContent }), sender: secrets.sender })
      .set({ build_state: 'failed', commit_id: commit ?? 0n, finished_at: now })
      .where('id', '=', request ?? 0n)
      .execute(),
  );
  const withheld = JSON.stringify([{ name: secrets.withheld, refs: ['refs/heads/main'], reason: 'ref' }]);
  const steps = JSON.stringify([
    { name: 'one', state: 'passed', from: 0, to: 5, line: 1 },
    { name: 'two', state: 'failed', from: 5, to: 9, line: 2 },
  ]);
  await db.transaction((trx) =>
    trx
      .updateTable('builds')
      .set({ withheld, steps, step_commands: JSON.stringify([secrets.step, secrets.step]) })
      .set({ approved_by: secrets.approver, approvers: JSON.stringify([secrets.approver]) })
      .set({ build_state: 'failed', exit_status: 1, started_at: now, finished_at: now })
      .where('id', '=', build ?? 0n)
      .execute(),
  );
  await db.transaction((trx) =>
    trx
      .updateTable('projects')
      .set({ forge_id: BigInt(world.path(':forge_id')), forge_repository: `${secrets.forge}/x` })
      .set({ forge_state: 'incomplete', forge_state_reason: secrets.forge })
      .where('id', '=', BigInt(world.path(':project_id')))
      .execute(),
  );
  for (const [log = 0n, text] of [
    [request, `${secrets.fetched} git@internal.example\n`],
    [build, 'a line for everybody\nand another\n'],
  ] as const)
    await db.transaction(async (trx) => {
      await beginLog(trx, log, BigInt(world.path(':project_id')));
      await appendLog(db, trx, log, 0n, Buffer.from(text));
      await completeLog(db, trx, log);
    });
}

/** A call's response apart from its time, identifier and cookies. */
function sightOf({ status, headers, text }: Answer): unknown {
  const { date: _date, 'x-request-id': _id, 'set-cookie': _cookie, ...rest } = headers;
  return { status, text, headers: rest };
}

describeServiceOnOne(
  'a public project',
  (service) => {
    let owner: User;
    let world: World;
    let key: string;
    before(async () => {
      owner = await service.user();
      world = await buildWorld(service, owner);
      await fill(service, world);
      // Badges of private projects are another choice of the owner.
      const isOpen = { public: 'true', public_badge: 'false' };
      const project = await owner.put(world.path('/projects/:project_id'), isOpen);
      [, key = ''] = String(project.record.ssh_public_key).split(' ');
      const suite = world.path('/projects/:project_id/suites/:suite_id');
      assert.equal((await owner.put(suite, { command: secrets.command })).status, 200);
      const variable = { name: secrets.variable, content: secrets.content };
      assert.equal((await owner.post(`${suite}/environment_variables`, variable)).status, 201);
    });

    const leaks = (text: string): string[] => {
      const people = [owner.email, 'friend-of-', 'guest-of-', 'member-of-'];
      return [...Object.values(secrets), key, ...people].filter((one) => one !== '' && text.includes(one));
    };

    test('shows the public everything but people, keys, variables and addresses', async () => {
      const open = routes.filter(({ access, path }) => (access as Role) === 'public' && path.startsWith('/projects/:'));
      assert.ok(open.length > 30);
      const stranger = await service.user();
      const streams = { accept: 'application/x-ndjson' };
      for (const { path } of open) {
        const query = path.endsWith('/history') && path.includes('tests') ? `?key=${'0'.repeat(12)}` : '?q=x';
        const address = world.path(path) + (/search|history/.test(path) ? query : '');
        // These have no end: that of the request is read here, and that of the project below.
        if (/:(?:project|build_request)_id\/firehose$/.test(path)) continue;
        for (const as of [undefined, stranger.credentials]) {
          const answer = await service.api.get(address, { headers: streams, ...(as && { as }) });
          const isMissing = path.endsWith('/tests/history');
          assert.equal(answer.status, isMissing ? 404 : 200, `${path} ${answer.text}`);
          assert.deepEqual(leaks(answer.text), [], path);
        }
      }
      for (const as of [undefined, stranger.credentials]) {
        const path = world.path('/projects/:project_id/build_requests/:build_request_id/firehose');
        const told = new Listener(await service.api.open(path, as ? { as } : {}));
        const events = JSON.stringify(await told.until(({ data }) => String(data.text).includes('and another')));
        told.leave();
        assert.deepEqual(leaks(events), []);
        assert.doesNotMatch(events, /"state":"(?:enqueued|fetching)"/, 'only of builds');
      }
      for (const route of routes.filter((one) => !open.includes(one) && one.path.startsWith('/projects/:'))) {
        if (route.access === 'none' || route.path.endsWith('/accept')) continue;
        const answer = await service.api.ask(route.method, world.path(route.path));
        assert.equal(answer.status, 401, route.path);
      }
      assert.equal((await service.api.get(world.path('/projects/:project_id/badge.svg'))).status, 200);
    });

    test('has pages for visitors, without buttons, and a way to sign in', async () => {
      const visitor = new Tab(service);
      const stranger = new Tab(service);
      await stranger.signIn((await service.user()).credentials);
      for (const { path } of projectPages) {
        const address = world.path(path);
        const [seen, known] = [await visitor.get(address), await stranger.get(address)];
        if (!openPages.includes(path)) {
          assert.equal(seen.status, 303, path);
          assert.equal(seen.headers.location, `/ui/sign-in?return=${encodeURIComponent(address)}`, path);
          assert.ok([401, 403, 404].includes(known.status), `${path} ${known.status}`);
          continue;
        }
        assert.equal(seen.status, 200, `${path} ${seen.text}`);
        assert.equal(known.status, 200, path);
        for (const { text } of [seen, known]) {
          assert.deepEqual(leaks(text), [], path);
          assert.doesNotMatch(text, /name="do" value=/, `${path} has no form`);
          assert.doesNotMatch(text, /\/settings|\/deploys|Fetch log|Open a shell/, path);
          assert.match(text, /data-changes="\/ui\/data\/projects\/\d+\/changes"/, path);
        }
        assert.match(seen.text, /href="\/ui\/sign-in\?return=/);
      }
      const build = await visitor.get(world.path('/ui/projects/:project_id/builds/:build_id'));
      assert.match(build.text, /a line for everybody/);
      assert.match(build.text, /class="step-name">two</);
      const data = '/ui/data/projects/:project_id';
      const own = { 'sec-fetch-site': 'same-origin' };
      for (const path of [
        '/builds/:build_id/log/view',
        '/builds/:build_id/log.txt',
        '/builds/:build_id/artifacts.zip',
      ]) {
        const answer = await visitor.get(world.path(data + path), own);
        assert.equal(answer.status, 200, path);
        assert.deepEqual(leaks(answer.text), []);
        assert.equal((await visitor.get(world.path(data + path), { 'sec-fetch-site': 'cross-site' })).status, 401);
      }
      assert.equal(
        (await visitor.get(world.path(`${data}/build_requests/:build_request_id/log/view`), own)).status,
        401,
      );
      const form = { do: 'restart', form_key: /form_key/.exec(build.text)?.[0] ?? '' };
      const sent = await visitor.post(world.path('/ui/projects/:project_id/builds/:build_id'), form);
      assert.ok([303, 403].includes(sent.status));
    });

    test('is listed, searched and paged; the private ones are not', async () => {
      const secret = await owner.createProject({ name: 'hidden-one' });
      for (let number = 0; number < 51; number += 1)
        await owner.createProject({ name: `listed-${String(number).padStart(2, '0')}`, public: 'true' });
      const visitor = new Tab(service);
      const first = await visitor.get('/ui/explore');
      assert.equal(first.status, 200);
      assert.deepEqual(leaks(first.text), []);
      assert.match(first.text, /listed-50/);
      assert.doesNotMatch(first.text, /listed-00|hidden-one/);
      const [, older = ''] = /href="(\/ui\/explore\?before=\d+)" rel="next"/.exec(first.text) ?? [];
      assert.match((await visitor.get(older)).text, /listed-00/);
      const found = await visitor.get('/ui/explore?filter=LISTED-07');
      assert.match(found.text, /listed-07/);
      assert.doesNotMatch(found.text, /listed-08/);
      assert.match((await visitor.get('/ui/explore?filter=hidden')).text, /Nothing found/);
      assert.match((await visitor.get('/ui/sign-in')).text, /href="\/ui\/explore"/);
      await owner.delete(`/projects/${secret.id}`);
    });

    test('that is private again looks like none, and its streams end', async () => {
      const path = world.path('/projects/:project_id');
      const visitor = new Tab(service);
      await visitor.get('/ui/sign-in');
      const artifact = world.path('/projects/:project_id/builds/:build_id/artifacts/:artifact_id');
      const seen = await service.api.get(artifact);
      assert.match(String(seen.headers['cache-control']), /\bprivate\b.*\bno-cache\b/);
      const version = { headers: { 'if-none-match': String(seen.headers.etag) } };
      assert.equal((await service.api.get(artifact, version)).status, 304);
      const cached = [
        path,
        world.path('/ui/projects/:project_id'),
        world.path('/ui/projects/:project_id/builds/:build_id'),
      ];
      for (const address of cached)
        assert.equal((await visitor.get(address)).headers['cache-control'], 'no-store', address);

      const own = { 'sec-fetch-site': 'same-origin' };
      const live = await service.api.open(`/ui/data${path}/changes`, { headers: own });
      const firehose = await service.api.open(`${path}/firehose?offset=0`, {});
      const told = new Listener(firehose);
      assert.equal((await told.next()).event, 'state');
      const changes = eventsOf(live);
      assert.equal((await changes.next()).value?.event, 'hello');
      assert.equal((await owner.put(path, { public: 'false' })).status, 200);
      await told.rest();
      for await (const one of changes) assert.notEqual(one.event, 'hello');

      const none = String(BigInt(world.path(':project_id')) + 1n);
      const elsewhere = (address: string): string => address.replaceAll(world.path(':project_id'), none);
      const stranger = new Tab(service);
      await stranger.signIn((await service.user()).credentials);
      const addresses = [...routes, ...allRoutes]
        .filter(({ method, path: of }) => method === 'GET' && /\/projects\/:project_id/.test(of))
        .map(({ path: of }) => world.path(of));
      for (const address of [...addresses, `/ui/data${path}/changes`]) {
        for (const tab of [visitor, stranger]) {
          const isOfData = address.startsWith('/ui/data');
          const [closed, missing] = [
            await tab.get(address, isOfData ? own : {}),
            await tab.get(elsewhere(address), isOfData ? own : {}),
          ];
          const located = JSON.stringify(sightOf(missing)).replaceAll(none, world.path(':project_id'));
          assert.deepEqual(JSON.stringify(sightOf(closed)), located, address);
        }
      }
      assert.equal((await service.api.get(artifact, version)).status, 401);
      assert.doesNotMatch(
        (await visitor.get('/ui/explore')).text,
        new RegExp(`/ui/projects/${world.path(':project_id')}"`),
      );
      assert.equal((await owner.put(path, { public: 'true' })).status, 200);
    });
  },
  { streamPauseMs: 20, settings: { public_rate: '100000' } },
);

describeServiceOnOne(
  'the limit of calls without credentials',
  (service) => {
    test('is for them alone', async () => {
      const owner = await service.user();
      const { id } = await owner.createProject({ public: 'true' });
      const tab = new Tab(service);
      await tab.signIn(owner.credentials);
      for (let call = 0; call < 3; call += 1) assert.equal((await service.api.get(`/projects/${id}`)).status, 200);
      const visitor = new Tab(service);
      assert.equal((await visitor.get(`/ui/projects/${id}`)).status, 200); // one call, whatever the page reads
      const refused = await service.api.get(`/projects/${id}`);
      assert.equal(refused.status, 429);
      assert.deepEqual(refused.body, { error: { generic: ['limit_reached'] } });
      assert.match(String(refused.headers['retry-after']), /^([1-9]|[1-5]\d|60)$/);
      for (const address of [`/ui/projects/${id}`, '/ui/explore']) {
        const page = await visitor.get(address);
        assert.equal(page.status, 429);
        assert.match(String(page.headers['retry-after']), /^\d+$/);
        assert.match(page.text, /Too many requests/);
      }
      // Forwarded addresses are believed only behind a proxy.
      const elsewhere = { headers: { 'x-forwarded-for': '198.51.100.9' } };
      assert.equal((await service.api.get(`/projects/${id}`, elsewhere)).status, 429);
      assert.equal((await owner.get(`/projects/${id}`)).status, 200);
      assert.equal((await tab.get(`/ui/projects/${id}`)).status, 200);
      assert.equal((await visitor.get('/ui/sign-in')).status, 200);
      assert.equal((await service.api.get('/ping')).status, 200);
    });
  },
  { settings: { public_rate: '4' } },
);

describeService(
  'without public projects',
  (service) => {
    test('those that were are closed, and there are no new ones', async () => {
      const owner = await service.user();
      const project = await owner.createProject();
      await service.store.db.transaction((trx) =>
        trx.updateTable('projects').set({ public: 1 }).where('id', '=', project.id).execute(),
      );
      const refused = { public: ['invalid_format'] };
      const made = await owner.post('/projects', {
        name: 'p',
        repository_url: 'git@example.org:a/b.git',
        public: 'true',
      });
      assert.deepEqual([made.status, made.body.error], [403, refused]);
      const changed = await owner.put(`/projects/${project.id}`, { public: 'true' });
      assert.deepEqual([changed.status, changed.body.error], [403, refused]);
      assert.equal((await owner.put(`/projects/${project.id}`, { description: 'still mine' })).status, 200);

      const visitor = new Tab(service);
      for (const path of [
        `/projects/${project.id}`,
        `/projects/${project.id}/builds`,
        `/ui/data/projects/${project.id}/changes`,
      ])
        assert.equal((await service.api.get(path)).status, 401, path);
      assert.equal((await service.api.get(`/projects/${project.id}/badge.svg`)).status, 404);
      const stranger = await service.user();
      assert.equal((await stranger.get(`/projects/${project.id}`)).status, 404);
      for (const path of [`/ui/projects/${project.id}`, '/ui/explore']) {
        const seen = await visitor.get(path);
        assert.deepEqual([seen.status, seen.headers.location], [303, `/ui/sign-in?return=${encodeURIComponent(path)}`]);
      }
      assert.doesNotMatch((await visitor.get('/ui/sign-in')).text, /explore/);
      const tab = new Tab(service);
      await tab.signIn(stranger.credentials);
      assert.equal((await tab.get('/ui/explore')).status, 404);
      assert.equal((await tab.get(`/ui/projects/${project.id}`)).status, 404);
    });
  },
  { settings: { public_projects: 'off' } },
);
