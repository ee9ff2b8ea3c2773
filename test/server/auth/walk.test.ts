import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { updateUser } from '../../../src/server/auth/users.ts';
import { databaseUrl } from '../../../src/cli/operator/store.ts';
import { openSnapshot } from '../../../src/server/db/snapshot.ts';
import { scopes } from '../../../src/server/http/route.ts';
import { exactJson } from '../../../src/shared/lib/exact-json.ts';
import { pageRoutes, routes } from '../../../src/server/resources/index.ts';
import { allRoutes } from '../../../src/server/ui/index.ts';
import { addShell } from '../../support/shells.ts';
import type { Answer } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeServiceOnOne, type Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';

type Route = (typeof routes)[number];

const guarded = routes.filter(({ access }) => access !== 'none');
/** An offer is only for the person who may accept it (transfers.test.ts). */
const guardedHere = guarded.filter(({ path }) => !path.endsWith('/accept'));
const ofProject = guardedHere.filter(({ path }) => path.startsWith('/projects/:'));
const ofOrganisation = guardedHere.filter(({ path }) => path.startsWith('/organisations/:'));
const ofAccount = guardedHere.filter((one) => !ofProject.includes(one) && !ofOrganisation.includes(one));
const usersOnly = ({ access }: Route): boolean => access === 'users' || access === 'maintainer' || access === 'owner';
const forOperators = ({ access }: Route): boolean => access === 'operators';

/** What is deleted comes last, and what holds it after it. */
const deletesLast = (a: Route, b: Route): number =>
  Number(a.method === 'DELETE') - Number(b.method === 'DELETE') || b.path.length - a.path.length;

const unauthorized = { generic: ['unauthorized'] };

/** Every row of every table, but for what the server does by itself: it has its number and sends webhooks. */
async function everything({ config }: Service): Promise<Set<string>> {
  const snapshot = await openSnapshot(databaseUrl(config));
  const lines = new Set<string>();
  for (const table of snapshot.tables.filter(({ name }) => !/^(id_nodes|deliver.*|webhook_attempts)$/.test(name)))
    for await (const rows of snapshot.rows(table)) {
      for (const row of rows.filter((values) => !values.includes('deliver')))
        lines.add(`${table.name} ${exactJson(row)}`);
    }
  await snapshot.close();
  return lines;
}

describeServiceOnOne('every route', (service) => {
  let owner: User;
  let world: World;
  before(async () => {
    owner = await service.user();
    world = await buildWorld(service, owner);
  });

  const call = async (user: User, route: Route, where = world): Promise<Answer> => {
    // A shell is for who opened it.
    const shell = route.path.includes(':shell_id') ? await addShell(service.store, where, user.email) : { id: 0n };
    const path = where.path(route.path.replace(':shell_id', String(shell.id)));
    const answer = await service.api.ask(route.method, path, { as: user.credentials });
    if (route.path === '/api_key' && answer.status === 200) user.credentials.api_key = String(answer.record.api_key);
    return answer;
  };

  /** The caller got past the door: what is wrong now, if anything, is that no fields were sent. */
  const assertAdmitted = (answer: Answer, route: Route): void => {
    if (answer.status < 300) return;
    const inUse = answer.text.includes('resource_temporary_unavailable');
    const fields = Object.keys(answer.body.error ?? {});
    const isAdmitted =
      [403, 415, ...(route.connects ? [426] : [])].includes(answer.status) && (inUse || !fields.includes('generic'));
    assert.ok(isAdmitted, `${route.method} ${route.path}: ${answer.status} ${answer.text}`);
  };

  test('refuses a caller without credentials, or with wrong ones', async () => {
    const wrong = [
      undefined,
      { ...owner.credentials, api_key: 'hrk_wrong' },
      { ...owner.credentials, api_key: owner.credentials.password },
      { ...owner.credentials, email: 'nobody@example.org' },
    ];
    for (const route of guarded) {
      for (const as of wrong) {
        const answer = await service.api.ask(route.method, world.path(route.path), as ? { as } : {});
        assertRefused(answer, 401, unauthorized);
        assert.match(String(answer.headers['www-authenticate']), /^Basic /);
      }
    }
  });

  test('refuses credentials that are not in Basic form', async () => {
    const { email, api_key: key } = owner.credentials;
    const plain = Buffer.from(`${email}${key}`).toString('base64');
    for (const authorization of [`Bearer ${key}`, 'Basic', 'Basic !!!', `Basic ${plain}`, `Digest ${plain}`]) {
      assertRefused(await service.api.get('/whoami', { headers: { authorization } }), 401, unauthorized);
    }
  });

  test('shows a stranger nothing [promise: account-walls]', async () => {
    const stranger = await service.user();
    for (const route of guarded.filter((one) => one.path.includes(':') && !forOperators(one))) {
      assertRefused(await call(stranger, route), 404, { generic: ['not_found'] });
    }
  });

  for (const kind of ['user', 'collaborator'] as const) {
    test(`lets a collaborator with an account of kind ${kind} do what both may`, async () => {
      const theirs = await buildWorld(service, owner);
      const collaborator = await service.user(kind);
      await owner.invite(theirs.project, collaborator);
      for (const route of ofProject.filter(usersOnly)) {
        assertRefused(await call(collaborator, route, theirs), 401, unauthorized);
      }
      for (const route of ofProject.filter((one) => !usersOnly(one)).toSorted(deletesLast)) {
        assertAdmitted(await call(collaborator, route, theirs), route);
      }
    });
  }

  test('refuses an account that can only collaborate what is an account’s own', async () => {
    const collaborator = await service.user('collaborator');
    for (const route of ofAccount.filter(usersOnly)) assertRefused(await call(collaborator, route), 401, unauthorized);
    for (const path of ['/whoami', '/projects']) assert.equal((await collaborator.get(path)).status, 200);
  });

  test('lets a member of an organisation do what the role may, and no more', async () => {
    const ranks = ['public', 'viewer', 'developer', 'maintainer', 'owner'];
    for (const role of ['viewer', 'developer', 'maintainer', 'owner']) {
      const theirs = await buildWorld(service, owner);
      const person = await service.user();
      const members = theirs.path('/organisations/:organisation_id/members');
      await owner.post(members, { email: person.credentials.email, role });
      await service.store.db.transaction((trx) =>
        trx
          .updateTable('projects')
          .set({ owner_id: BigInt(theirs.path(':organisation_id')) })
          .where('id', '=', theirs.project.id)
          .execute(),
      );
      const may = ({ access }: Route): boolean => ranks.indexOf(access) <= ranks.indexOf(role);
      const walked = [...ofProject, ...ofOrganisation];
      for (const route of walked.filter((one) => !may(one))) {
        const answer = await call(person, route, theirs);
        assertRefused(answer, 401, unauthorized);
      }
      for (const route of walked.filter(may).toSorted(deletesLast)) {
        // A viewer may remove only themselves, and an organisation with projects stays.
        if (route.path.endsWith('/:member_id') && route.method === 'DELETE' && role !== 'owner') continue;
        assertAdmitted(await call(person, route, theirs), route);
      }
    }
  });

  test('shows anybody a public project, and nothing else of it', async () => {
    const theirs = await buildWorld(service, owner);
    const stranger = await service.user();
    const asAnybody = (route: Route): Promise<Answer> => service.api.ask(route.method, theirs.path(route.path));
    await owner.put(`/projects/${theirs.project.id}`, { public: 'true' });
    for (const route of ofProject) {
      const seen = [await asAnybody(route), await call(stranger, route, theirs)];
      for (const answer of seen) {
        if (route.access === 'public') assertAdmitted(answer, route);
        else assertRefused(answer, 401, unauthorized);
        assert.ok(
          !/@example\.|ssh-ed25519/.test(answer.text.replaceAll(/git@[\w.]+/g, '')),
          `${route.path} ${answer.text}`,
        );
      }
    }
    await owner.put(`/projects/${theirs.project.id}`, { public: 'false' });
    for (const route of ofProject.filter(({ access }) => access === 'public')) {
      assertRefused(await asAnybody(route), 401, unauthorized);
      assertRefused(await call(stranger, route, theirs), 404, { generic: ['not_found'] });
    }
  });

  test('asks an owner who does not pay to pay, and lets them collaborate', async () => {
    for (const billing of ['trial_ended', 'overdue'] as const) {
      const [debtor, theirs] = [await service.user(), await buildWorld(service, owner)];
      const own = await buildWorld(service, debtor);
      await owner.invite(theirs.project, debtor);
      await service.stopPaying(debtor, billing);
      const payment = { generic: ['payment_required'] };
      for (const route of [...ofProject, ...ofAccount.filter(usersOnly)]) {
        assertRefused(await call(debtor, route, own), 402, payment);
      }
      for (const route of ofProject.filter((one) => !usersOnly(one)).toSorted(deletesLast)) {
        assertAdmitted(await call(debtor, route, theirs), route);
      }
      assert.equal((await debtor.get('/whoami')).status, 200);
      const listed = (await debtor.get('/projects')).list;
      assert.deepEqual(
        listed.map(({ id }) => id),
        [theirs.project.id],
      );
    }
  });

  test('has nothing done at the cost of an owner who does not pay or is suspended', async () => {
    const ends = [
      (person: User) => service.stopPaying(person, 'trial_ended'),
      (person: User) => service.stopPaying(person, 'overdue'),
      (person: User) => service.suspend(person),
    ];
    const starting = ofProject.filter(({ startsWork }) => startsWork);
    assert.deepEqual(starting.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+/g, 'ID')}`).toSorted(), [
      'POST /projects/ID/build_requests',
      'POST /projects/ID/build_requests/ID/again',
      'POST /projects/ID/build_requests/ID/approve',
      'POST /projects/ID/build_requests/ID/rerun',
      'POST /projects/ID/builds/ID/approve',
      'POST /projects/ID/builds/ID/restart',
      'POST /projects/ID/builds/ID/shell',
      'POST /projects/ID/deploys',
      'POST /projects/ID/deploys/ID/approve',
    ]);
    for (const end of ends) {
      const [debtor, colleague] = [await service.user(), await service.user()];
      const theirs = await buildWorld(service, debtor);
      await debtor.invite(theirs.project, colleague);
      for (const route of starting) assertAdmitted(await call(colleague, route, theirs), route);
      await end(debtor);
      for (const route of starting) {
        assertRefused(await call(colleague, route, theirs), 402, { generic: ['payment_required'] });
      }
      const open = ofProject.filter((one) => !usersOnly(one) && !one.startsWork);
      for (const route of open.toSorted(deletesLast)) assertAdmitted(await call(colleague, route, theirs), route);
      const stranger = await service.user();
      for (const route of starting) assertRefused(await call(stranger, route, theirs), 404, { generic: ['not_found'] });
    }
  });

  test('refuses a suspended account, which learns why only with its right key', async () => {
    const suspended = await service.user();
    await owner.invite(world.project, suspended);
    await service.suspend(suspended);
    for (const route of guarded) assertRefused(await call(suspended, route), 401, { generic: ['account_suspended'] });
    const guess = service.signIn({ ...suspended.credentials, api_key: 'hrk_guess' });
    for (const route of guarded) assertRefused(await call(guess, route), 401, unauthorized);
  });

  test('lets the owner in', async () => {
    const [person] = [await service.user()];
    const own = await buildWorld(service, person);
    for (const route of guardedHere.filter((one) => !forOperators(one)).toSorted(deletesLast)) {
      assertAdmitted(await call(person, route, own), route);
    }
  });

  test('that reads, and every page, leaves everything in the database as it was', async () => {
    const own = await buildWorld(service, owner);
    const tab = new Tab(service);
    await tab.signIn(owner.credentials);
    const before_ = await everything(service);
    const needed = { q: 'x', key: '0'.repeat(12), expression: 'x' };
    // The first user is an operator.
    for (const route of routes.filter(({ method }) => method === 'GET')) {
      const query = Object.entries(needed).find(([name]) => route.query && name in route.query);
      const asked = query ? `?${query.join('=')}` : '';
      const { status } = await service.api.get(`${own.path(route.path)}${asked}`, { as: owner.credentials });
      // At the forge of this world nobody listens.
      const others: Record<number, boolean> = {
        403: route.path === '/forges/:forge_id/repositories',
        404: route.path === '/projects/:project_id/tests/history', // there is no such test
        426: route.connects ?? false, // it does not ask for a WebSocket
      };
      assert.ok(others[status] ?? status === 200, `${route.path} ${status}`);
    }
    // Pages alone read the outline, the list of public projects, and what they show of artifacts and summaries.
    const readByPages =
      /\/outline$|^\/public_projects$|\/artifacts\/(:artifact_id\/(view|content)|sites)$|\/summary\/view$/;
    for (const { path } of pageRoutes.filter((route) => !readByPages.test(route.path)))
      assert.equal((await tab.get(`/ui/data${own.path(path)}`)).status, 200, path);
    for (const { method, path } of allRoutes)
      if (method === 'GET') assert.ok((await tab.get(own.path(path))).status < 500, path);
    const after = await everything(service);
    assert.deepEqual([...after.symmetricDifference(before_)], []);
  });

  test('shows what concerns everybody to operators alone', async () => {
    const { db } = service.store;
    const setOperator = (user: User, operator: number) =>
      db.transaction((trx) => updateUser(trx, user.email, { operator }));
    for (const person of [await service.user(), await service.user('collaborator')]) {
      for (const route of guarded.filter(forOperators)) {
        assertRefused(await call(person, route), 401, unauthorized);
        await setOperator(person, 1);
        assertAdmitted(await call(person, route), route);
        await setOperator(person, 0);
        assertRefused(await call(person, route), 401, unauthorized);
      }
    }
    for (const route of guarded.filter(forOperators)) assertAdmitted(await call(owner, route), route); // who came first
  });

  test('takes for an identifier only a decimal number of 64 bits', async () => {
    const none = ['x', '-1', '1.0', '0x10', '1e3', '9223372036854775808', '99999999999999999999', '%20', '1%00', '０'];
    for (const route of guarded.filter(({ path }) => path.includes(':'))) {
      for (const id of none) {
        // The last one; names are no identifiers.
        const path = world.path(route.path.replace(/:\w+_id\b(?!.*_id\b)/, id));
        const answer = await service.api.ask(route.method, encodeURI(decodeURI(path)), { as: owner.credentials });
        assertRefused(answer, 404, { generic: ['not_found'] });
      }
    }
  });

  test('shows a token of one project that project alone [promise: token-projects]', async () => {
    const [theirs, other] = [await buildWorld(service, owner), await buildWorld(service, owner)];
    await owner.put(`/projects/${other.project.id}`, { public: 'true' });
    const form: [string, string][] = Object.keys(scopes).map((scope) => ['scopes[]', scope]);
    const made = await owner.post('/tokens', [['name', 'script'], ['project_ids[]', theirs.project.id_str], ...form]);
    const limited = service.signIn({ ...owner.credentials, api_key: String(made.record.token) });
    const nameOf = ({ method, path }: Route): string => `${method} ${path}`;
    const isNever = ({ scope }: Route): boolean => scope === 'never';
    const escapes = ['POST /projects/:project_id/connect', 'POST /projects/:project_id/transfer'];
    const open = ofProject.filter((route) => !isNever(route) && !escapes.includes(nameOf(route)));
    const ofMany = [
      '/cctray.xml',
      '/dashboard',
      '/dependencies/:dependency_id/result',
      '/projects',
      '/search',
      '/whoami',
    ];
    const lists = guarded.filter(({ method, path }) => method === 'GET' && ofMany.includes(path));
    const closed = guarded.filter((route) => !open.includes(route) && !lists.includes(route));
    for (const world of [theirs, other])
      for (const route of closed) assertRefused(await call(limited, route, world), 401, unauthorized);
    for (const route of open) assertRefused(await call(limited, route, other), 404, { generic: ['not_found'] });
    for (const route of lists) {
      const answer = await call(limited, route, theirs);
      if (route.path.endsWith('/result')) assertRefused(answer, 404, { generic: ['not_found'] });
      else assertAdmitted(answer, route);
      assert.ok(!answer.text.includes(String(other.project.name)), route.path);
    }
    for (const route of open.toSorted(deletesLast)) assertAdmitted(await call(limited, route, theirs), route);
  });
});
