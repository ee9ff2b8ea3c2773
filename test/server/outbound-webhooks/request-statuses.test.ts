import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

const origin = 'https://ci.example.org';
const { sha } = aCommit;

interface Told {
  state: string;
  context: string;
  target_url: string;
  description: string;
}

describeWithRunner(
  'the status of a whole commit',
  (service, runner) => {
    const begin = async (forge: Receiver, suites: string[], fields: Record<string, string> = {}) => {
      const user: User = await service.user();
      const project = await user.createProject(fields);
      await user.createStatusTarget(project, { api_url: `http://127.0.0.1:${forge.port}` });
      for (const name of suites) await user.createSuite(project, { name });
      return { user, project, at: `/projects/${project.id}/build_requests` };
    };
    /** What the forge was told, once it was told so much. */
    const told = async (forge: Receiver, many: number): Promise<Told[]> =>
      (await forge.received(many)).map(({ body }) => JSON.parse(body) as Told);
    const inShort = ({ context, state, description }: Told): string => `${context} ${state}: ${description}`;
    const ofWhole = (all: Told[]): string[] => all.filter(({ context }) => context === 'headrace').map(inShort);
    const fetched = async (): Promise<void> => (await runner.take('fetch_commit')).fetched();
    const end = async (outcome: Outcome): Promise<void> =>
      void (await (await runner.take('run_suite')).finish(outcome));
    const passed: Outcome = { kind: 'exited', status: 0 };
    const push = async (project: Record_): Promise<bigint> => {
      const { request } = await trigger(service.store, project, sha);
      assert.ok(request);
      return request.id;
    };

    test('is pending before the fetch, and like the request after its suites', async () => {
      await using forge = await Receiver.start(reply(201));
      const { project } = await begin(forge, ['unit', 'headrace']);
      const id = await push(project);
      const [first] = await told(forge, 1);
      assert.deepEqual(first, {
        context: 'headrace',
        state: 'pending',
        description: 'Fetching the commit',
        target_url: `${origin}/ui/projects/${project.id}/requests/${id}`,
      });
      await fetched();
      await end(passed);
      await end(passed);
      const all = await told(forge, 8);
      assert.equal(forge.calls[0]?.path.endsWith(`/statuses/${sha}`), true);
      assert.deepEqual(
        all.map(({ context }) => context === 'headrace'),
        [true, false, false, false, false, false, false, true],
      );
      const suites = new Set(all.slice(1, -1).map(({ context }) => context));
      assert.deepEqual(suites, new Set(['headrace/unit', 'headrace/headrace']));
      const last = all.at(-1);
      assert.equal(last && inShort(last), 'headrace success: 2 suites passed');
      assert.equal(last?.target_url, first?.target_url);
    });

    test('says what went wrong, and is told again by a rerun', async () => {
      await using forge = await Receiver.start(reply(201));
      const { user, project, at } = await begin(forge, ['unit', 'lint']);
      const again = `${at}/${await push(project)}/rerun`;
      await (await runner.take('fetch_commit')).finish({ kind: 'unfetchable', reason: 'host_unreachable' });
      assert.equal((await user.post(again)).status, 200);
      await fetched();
      await end(passed);
      await end({ kind: 'exited', status: 1 });
      assert.equal((await user.post(again, { failed_only: 'true' })).status, 200);
      await end({ kind: 'unfetchable', reason: 'key_refused' });
      assert.equal((await user.post(again)).status, 200);
      await end(passed);
      await end(passed);
      const all = await told(forge, 8 + 6 + 3 + 6);
      assert.deepEqual(ofWhole(all), [
        'headrace pending: Fetching the commit',
        'headrace error: The git host does not respond.',
        'headrace pending: Fetching the commit',
        'headrace failure: 1 of 2 suites failed',
        'headrace pending: Running the suites',
        'headrace error: 1 of 2 suites could not be run',
        'headrace pending: Running the suites',
        'headrace success: 2 suites passed',
      ]);
    });

    test('is an error where the file that the commit is built by has a mistake', async () => {
      await using forge = await Receiver.start(reply(201));
      const { user, project, at } = await begin(forge, ['unit'], { config_file: '.headrace.toml' });
      const id = await push(project);
      const text = '[[suites]]\nname = "unit"\ncommand = "make"\n\n[[suites]]\nname = "lint"\ncomand = "<b>"\n';
      const task = await runner.take('fetch_commit');
      await task.finish({ kind: 'fetched', commit: aCommit, config: { text, path: '.headrace.toml', before: null } });
      await runner.assertIdle();
      assert.deepEqual((await told(forge, 2)).map(inShort), [
        'headrace pending: Fetching the commit',
        'headrace error: The commit’s configuration file has an error. The log shows where.',
      ]);
      const request = (await user.get(`${at}/${id}`)).record;
      assert.deepEqual([request.build_state, request.failure_reason], ['errored', 'configuration_invalid']);
      const mistake = '.headrace.toml:7: suites[lint][comand] is not known';
      assert.ok((await user.get(`${at}/${id}/log.txt`)).text.includes(mistake));
      const tab = new Tab(service);
      await tab.signIn(user.credentials);
      const page = (await tab.get(`/ui/projects/${project.id}/requests/${id}`)).text;
      for (const said of ['has an error. The log shows where.', 'Nothing was run', mistake])
        assert.ok(page.includes(said), said);
      assert.doesNotMatch(page, /could not be fetched/);

      // A schedule names a branch: which commit that is, is known when its file is read.
      const clock = { source: 'schedule:1', event: 'schedule', fetchRef: '', group: '' } as const;
      await trigger(service.store, project, 'main', clock);
      const later = { ...aCommit, sha: 'd'.repeat(40) };
      await (
        await runner.take('fetch_commit')
      ).finish({ kind: 'fetched', commit: later, config: { text, path: '.headrace.toml', before: null } });
      const all = await told(forge, 3);
      assert.equal(
        all[2] && inShort(all[2]),
        'headrace error: The commit’s configuration file has an error. The log shows where.',
      );
      assert.ok(forge.calls[2]?.path.endsWith(`/statuses/${later.sha}`), forge.calls[2]?.path);
    });

    test('is good where no suite has to run, and tells of a cancel and of a wait for approval', async () => {
      await using forge = await Receiver.start(reply(201));
      const { user, project, at } = await begin(forge, [], { fork_builds: 'approval' });
      await push(project);
      await fetched();
      await trigger(service.store, project, 'd'.repeat(40), { ...fromFork, group: '' });
      const { request } = await trigger(service.store, project, 'e'.repeat(40), { ...fromFork, group: '' });
      assert.equal((await user.post(`${at}/${request?.id}/approve`)).status, 200);
      assert.equal((await user.post(`${at}/${request?.id}/cancel`)).status, 200);
      assert.deepEqual((await told(forge, 6)).map(inShort), [
        'headrace pending: Fetching the commit',
        'headrace success: No suite had to run',
        'headrace pending: Waiting for approval',
        'headrace pending: Waiting for approval',
        'headrace pending: Fetching the commit',
        'headrace error: Cancelled',
      ]);
    });

    test('waits for the fetch where nobody knows the commit before, and comes before its suites all the same', async () => {
      await using forge = await Receiver.start(reply(201));
      const { project } = await begin(forge, ['unit']);
      const clock = { source: 'schedule:1', event: 'schedule', fetchRef: '', group: '' } as const;
      await trigger(service.store, project, 'main', clock);
      await fetched();
      await end(passed);
      assert.deepEqual(
        (await told(forge, 5)).map(({ context, state }) => `${context} ${state}`),
        [
          'headrace pending',
          'headrace/unit pending',
          'headrace/unit pending',
          'headrace/unit success',
          'headrace success',
        ],
      );
    });

    test('is that of the request for all suites that began last', async () => {
      await using forge = await Receiver.start(reply(201));
      const { user, project, at } = await begin(forge, ['unit']);
      const suite = (await user.get(`/projects/${project.id}/suites`)).list[0];
      await push(project);
      await fetched();
      const first = await runner.take('run_suite');
      await push(project);
      const second = await runner.take('run_suite');
      await first.exit(0); // another one is under way
      await second.exit(1);
      // One of some suites says nothing about the others; one of all suites does, whoever asks for it.
      assert.equal((await user.post(at, { commit_ref: sha, 'suites[]': String(suite?.id) })).status, 201);
      await end(passed);
      assert.equal((await user.post(at, { commit_ref: sha })).status, 201);
      await end(passed);
      assert.deepEqual(ofWhole(await told(forge, 5 + 11)), [
        'headrace pending: Fetching the commit',
        'headrace pending: Running the suites',
        'headrace failure: 1 of 1 suite failed',
        'headrace pending: Running the suites',
        'headrace success: 1 suite passed',
      ]);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8', base_url: origin } },
);
