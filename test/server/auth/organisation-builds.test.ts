import assert from 'node:assert/strict';
import { test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import type { Link, Order } from '../../../src/shared/protocol/index.ts';
import { assertRefused } from '../../support/expect.ts';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { registered } from '../../support/registered.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;
let number = 0;

const teamOf = async (owner: User): Promise<Record_ & { of: { organisation_id: string } }> => {
  const { record } = await owner.post('/organisations', { name: `builders-${(number += 1)}` });
  return { ...record, id: record.id, of: { organisation_id: String(record.id) } };
};
const add = (owner: User, team: Record_, person: User, role: string) =>
  owner.post(`/organisations/${team.id}/members`, { email: person.email, role });

describeService(
  'the runners of an organisation',
  (service) => {
    const ask = async (user: User, fields: Record<string, string> = {}): Promise<Record_> => {
      const project = await user.createProject(fields);
      await user.requestBuild(project);
      return project;
    };
    const next = (link: Link, holdMs = 0): Promise<Order | undefined> =>
      link.next({ claim: randomName(), holdMs }, patient);
    const finish = (link: Link, { claim }: Order) =>
      link.finish({ claim, outcome: { kind: 'unfetchable', reason: 'x' }, logSize: 0 }, patient);
    const projectOf = (order: Order | undefined): string =>
      order?.work.kind === 'fetch_commit' ? order.work.source.projectId : assert.fail('there is nothing to do');

    test('take its builds alone, and its owners alone see them [promise: organisation-runners]', async () => {
      const [owner, member, stranger] = [await service.user(), await service.user(), await service.user()];
      const [team, other] = [await teamOf(owner), await teamOf(stranger)];
      await add(owner, team, member, 'maintainer');
      const own = await registered(service, [{ email: String(team.name) } as User]);
      // Other accounts wait first: a member's own project, and that of another organisation.
      for (const [user, fields] of [
        [member, {}],
        [owner, {}],
        [stranger, other.of],
      ] as const)
        await ask(user, fields);
      assert.equal(await next(own.link), undefined, 'nothing of other accounts');
      const project = await ask(member, team.of);
      const order = await next(own.link);
      assert.equal(projectOf(order), String(project.id));

      const shown = (await owner.get(`/organisations/${team.id}/runners`)).list;
      assert.deepEqual(
        shown.map(({ name, accounts }) => [name, accounts]),
        [[own.name, [String(team.name)]]],
      );
      assertRefused(await member.get(`/organisations/${team.id}/runners`), 401, { generic: ['unauthorized'] });
      assertRefused(await stranger.get(`/organisations/${team.id}/runners`), 404, { generic: ['not_found'] });
      assert.deepEqual((await stranger.get(`/organisations/${other.id}/runners`)).list, []);

      // A project that is handed over takes what waits with it.
      await finish(own.link, order ?? assert.fail());
      await owner.requestBuild(project);
      assert.equal((await owner.post(`/projects/${project.id}/transfer`, { email: stranger.email })).status, 200);
      assert.equal((await stranger.post(`/projects/${project.id}/accept`)).status, 200);
      assert.equal(await next(own.link), undefined, 'it is no longer the organisation’s');

      // A deleted organisation leaves a runner that works for nobody, and not for everybody.
      assert.equal((await owner.delete(`/organisations/${team.id}`)).status, 200);
      assert.equal(await next(own.link), undefined);
      const again = (await stranger.post('/organisations', { name: String(team.name) })).record;
      await ask(stranger, { organisation_id: String(again.id) });
      assert.equal(await next(own.link), undefined, 'nor for one that took its name');
      assert.deepEqual((await stranger.get(`/organisations/${again.id}/runners`)).list, []);
      own.link.close();
    });

    test('share the bound of their organisation, whoever asks [promise: organisation-bounds]', async () => {
      const [owner, member, modest] = [await service.user(), await service.user(), await service.user()];
      const team = await teamOf(owner);
      await add(owner, team, member, 'maintainer');
      const runners = [await registered(service, [{ email: String(team.name) } as User])];
      const all = await registered(service, [{ email: String(team.name) } as User, modest]);
      runners.push(all);
      for (const user of [owner, member, owner, member]) await ask(user, team.of);
      const first = await next(runners[0]?.link ?? assert.fail());
      await next(all.link);
      const theirs = await ask(modest);
      assert.equal(projectOf(await next(all.link)), String(theirs.id), 'the others have their turn');
      for (const { link } of runners) assert.equal(await next(link), undefined, 'more than the bound');
      await finish(runners[0]?.link ?? assert.fail(), first ?? assert.fail());
      assert.ok(await next(all.link), 'one is over');
      for (const { link } of runners) link.close();
    });
  },
  { settings: { account_concurrency: '2' } },
);

describeWithRunner('the variables of an organisation', (service, runner) => {
  test('are in its builds: a project’s win, limits hold, and roles decide who reads them', async () => {
    const [owner, viewer, developer] = [await service.user(), await service.user(), await service.user()];
    const team = await teamOf(owner);
    await add(owner, team, viewer, 'viewer');
    await add(owner, team, developer, 'developer');
    const path = `/organisations/${team.id}/environment_variables`;
    const project = await owner.createProject(team.of);
    const suite = await owner.createSuite(project);
    const elsewhere = await owner.createProject();
    await owner.createSuite(elsewhere);
    for (const form of [
      { name: 'COMMON', content: 'of-the-organisation' },
      { name: 'OVER', content: 'of-the-organisation-too' },
      { name: 'KEY', content: 'of-production', 'refs[]': 'main' },
    ])
      assert.equal((await owner.post(path, form)).status, 201);
    await owner.post(`/projects/${project.id}/environment_variables`, { name: 'OVER', content: 'of-the-project' });

    let sha = 0;
    const had = async (of: Record_, branch: string) => {
      await owner.requestBuild(of, branch);
      const found = { ref: `refs/heads/${branch}`, branches: [branch], branch, tags: [], defaultHead: 'kept' as const };
      await (await runner.take('fetch_commit')).fetched({ ...found, sha: (sha += 1).toString(16).padStart(40, 'e') });
      const task = await runner.take('run_suite');
      const { environment, secrets } = task.order.work;
      await task.exit(0);
      const { COMMON, OVER, KEY } = environment;
      return { variables: [COMMON, OVER, KEY], secrets, id: environment['HEADRACE_BUILD_ID'] };
    };
    const onMain = await had(project, 'main');
    assert.deepEqual(onMain.variables, ['of-the-organisation', 'of-the-project', 'of-production']);
    assert.ok(onMain.secrets.includes('of-production'), 'it is masked in logs');
    const scratch = await had(project, 'scratch');
    assert.deepEqual(scratch.variables, ['of-the-organisation', 'of-the-project', undefined]);
    const build = (await viewer.get(`/projects/${project.id}/builds/${scratch.id}`)).record;
    assert.deepEqual(
      (build.withheld_variables as Record_[]).map(({ name }) => name),
      ['KEY'],
    );
    assert.deepEqual((await had(elsewhere, 'main')).variables, [undefined, undefined, undefined], 'a person’s own');

    const contents = async (user: User) =>
      Object.fromEntries((await user.get(path)).list.map(({ name, content }) => [name, content]));
    assert.deepEqual(await contents(viewer), { COMMON: '', OVER: '' });
    assert.deepEqual(await contents(developer), { COMMON: 'of-the-organisation', OVER: 'of-the-organisation-too' });
    const key = (await owner.get(path)).list.find(({ name }) => name === 'KEY');
    for (const user of [viewer, developer])
      for (const answer of [
        await user.get(`${path}/${key?.id}`),
        await user.put(`${path}/${key?.id}`, { content: 'x' }),
        await user.delete(`${path}/${key?.id}`),
      ])
        assertRefused(answer, 401, { generic: ['unauthorized'] });
    // What could print it is not the developer's to change, in any way.
    const at = `/projects/${project.id}/suites/${suite.id}`;
    for (const form of [{ command: 'env' }, { image: 'evil:1' }, { 'steps[0][command]': 'env' }])
      assert.ok([401, 403].includes((await developer.put(at, form)).status), JSON.stringify(form));
    assert.equal((await owner.get(at)).record.command, suite.command);
  });
});
