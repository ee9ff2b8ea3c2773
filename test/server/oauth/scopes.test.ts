import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { scopes, type Scope } from '../../../src/server/http/route.ts';
import { routes } from '../../../src/server/resources/index.ts';
import { registerApplication } from '../../support/applications.ts';
import { basic } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';

type Route = (typeof routes)[number];

const all = Object.keys(scopes) as Scope[];
const guarded = routes.filter(({ access }) => access !== 'none');
const deletesLast = (a: Route, b: Route): number =>
  Number(a.method === 'DELETE') - Number(b.method === 'DELETE') || b.path.length - a.path.length;
const unauthorized = { generic: ['unauthorized'] };

describeServiceOnOne('a token', (service) => {
  let owner: User;
  const withToken = new Map<string, string>();
  const ownToken = new Map<string, string>();
  before(async () => {
    owner = await service.user();
    const application = await registerApplication(service, owner);
    const make = async (name: string, some: readonly Scope[]): Promise<void> => {
      withToken.set(name, await application.token(owner, some));
      const form = some.map((scope): [string, string] => ['scopes[]', scope]);
      ownToken.set(name, String((await owner.post('/tokens', [['name', name], ...form])).record.token));
    };
    await make('not never', all);
    for (const scope of all) {
      await make(scope, [scope]);
      await make(
        `not ${scope}`,
        all.filter((one) => one !== scope),
      );
    }
  });

  /** An application's token in the query or in the header, or a token of the user's own as the password. */
  const waysOf = (name: string): { query: string; headers: Record<string, string> }[] => {
    const token = withToken.get(name) ?? '';
    return [
      { query: `?oauth_token=${token}`, headers: {} },
      { query: '', headers: { authorization: `Bearer ${token}` } },
      { query: '', headers: { authorization: basic({ email: owner.email, api_key: ownToken.get(name) ?? '' }) } },
    ];
  };

  const ask = (route: Route, world: World, way: { query: string; headers: Record<string, string> }) => {
    const path = world.path(route.path);
    const query = path.includes('?') ? way.query.replace('?', '&') : way.query;
    return service.api.ask(route.method, `${path}${query}`, { headers: way.headers });
  };

  test('is refused by every route whose scope it lacks, with all other scopes [promise: account-scopes]', async () => {
    const world = await buildWorld(service, owner);
    for (const route of guarded.filter(({ scope }) => scope !== 'any')) {
      for (const way of waysOf(`not ${route.scope}`)) assertRefused(await ask(route, world, way), 401, unauthorized);
    }
  });

  test('is let in by every route whose scope it has, with no other', async () => {
    for (const [at] of waysOf('user').entries()) {
      const world = await buildWorld(service, owner);
      for (const route of guarded.toSorted(deletesLast)) {
        // It reads what other routes show, and needs their scopes too; test/server/resources/config.test.ts has that.
        if (route.method === 'GET' && route.path.endsWith('/config')) continue;
        const isForNoToken = route.scope === 'never';
        const scope = route.scope === 'any' ? 'deploys' : isForNoToken ? 'user' : route.scope;
        const way = waysOf(scope)[at];
        assert.ok(way);
        const answer = await ask(route, world, way);
        if (isForNoToken) {
          assert.equal(answer.status, 401, `${route.method} ${route.path}`);
          continue;
        }
        // Nothing was sent, so a field may be missing; what was asked for may be in use or done. The door was open.
        const isUnknown = answer.status === 404 && !route.path.endsWith('/accept'); // nobody hands this project over
        const isRefused = [401, 402].includes(answer.status) || isUnknown;
        assert.ok(!isRefused, `${route.method} ${route.path}: ${answer.status} ${answer.text}`);
      }
    }
  });
});
