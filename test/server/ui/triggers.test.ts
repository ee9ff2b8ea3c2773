import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Answer, Record_ } from '../../support/client.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { aCommit, describeWithRunnerOnOne } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

const markup = '<img src=x onerror=alert(1)>"\'&';
const escaped = '&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;';

describeWithRunnerOnOne(
  'the triggers of a project, in a browser without scripts',
  (service, runner) => {
    let owner: User;
    let helper: User;
    let hers: Tab;
    let theirs: Tab;
    let project: Record_;
    let path: string;
    before(async () => {
      [owner, helper] = [await service.user(), await service.user('collaborator')];
      [hers, theirs] = [new Tab(service), new Tab(service)];
      await hers.signIn(owner.credentials);
      await theirs.signIn(helper.credentials);
      project = await owner.createProject({ name: 'Sluice' });
      await owner.invite(project, helper);
      path = `/ui/projects/${project.id}/settings/triggers`;
    });

    const send = async (tab: Tab, page: string, action: string, fields: Record<string, string> = {}) =>
      tab.submit(await tab.get(page), page, { do: action, ...fields });
    const assertDone = (answer: Answer, goesTo: string): void => {
      assert.equal(answer.status, 303, answer.text);
      assert.equal(String(answer.headers.location).replace(/[?&]done=\w+/, ''), goesTo);
    };
    const textOf = (answer: Answer, id: string): string => {
      const [, text] = new RegExp(`id="${id}">([^<]*)<`).exec(answer.text) ?? [];
      return text ?? assert.fail(`nothing is called ${id}: ${answer.text}`);
    };
    const words = ({ text }: Answer): string => text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    const callHook = (address: string, secret: string, json: object): Promise<Answer> =>
      service.api.post(new URL(address).pathname, { json, headers: { authorization: `Bearer ${secret}` } });

    test('show a hook with its address and, once, its secret; what arrived, and why it did not build', async () => {
      const created = await send(hers, path, 'create_hook', { provider: 'generic', 'events[]': 'push' });
      assert.equal(created.status, 200, created.text);
      assert.equal(created.headers['content-encoding'], undefined);
      const [address, secret] = [textOf(created, 'hook-url'), textOf(created, 'hook-secret')];
      const [hook] = (await owner.get(`/projects/${project.id}/hooks`)).list;
      assert.deepEqual([hook?.provider, hook?.events, hook?.url], ['generic', ['push'], address]);
      const at = `${path}/hooks/${hook?.id}`;
      assert.match(created.text, new RegExp(`href="${at}"`));
      for (const page of [path, at]) assert.ok(!(await hers.get(page)).text.includes(secret.slice(6)), page);
      assert.equal((await callHook(address, secret, { ref: 'refs/heads/main' })).status, 202);
      assert.equal((await callHook(address, secret, { ref: 'refs/tags/v1' })).status, 202);
      const shown = words(await hers.get(at));
      assert.match(shown, /build requested/);
      assert.match(shown, /ignored/);
      const [ignored, requested] = (await owner.get(`/projects/${project.id}/hooks/${hook?.id}/deliveries`)).list;
      assert.equal(ignored?.outcome, 'ignored');
      assert.ok(shown.includes(String(ignored.reason)), 'it says why');
      const request = String(requested?.build_request_id);
      assert.match((await hers.get(at)).text, new RegExp(`/requests/${request}"`));
      const requestPage = words(await hers.get(`/ui/projects/${project.id}/requests/${request}`));
      assert.match(requestPage, /pushed to main/);
      await (await runner.take('fetch_commit')).fetched();
      const saved = await hers.post(at, [
        ...Object.entries({ form_key: formKeyOf(await hers.get(at)), do: 'save', provider: 'generic' }),
        ['events[]', 'push'],
        ['events[]', 'tag'],
      ]);
      assertDone(saved, at);
      const replayed = await hers.submit(await hers.get(at), at, {
        do: 'replay',
        hook_delivery_id: String(ignored.id),
      });
      assertDone(replayed, `${at}#deliveries-title`);
      const [again] = (await owner.get(`/projects/${project.id}/hooks/${hook?.id}/deliveries`)).list;
      assert.equal(again?.outcome, 'build_requested', 'tags are wanted now');
      await (await runner.take('fetch_commit')).finish({ kind: 'unfetchable', reason: 'ref_not_found' });
      const renewed = await send(hers, at, 'new_secret');
      const fresh = textOf(renewed, 'hook-secret');
      assert.notEqual(fresh, secret);
      assert.equal((await callHook(address, secret, { ref: 'refs/heads/main' })).status, 401);
      assert.equal((await callHook(address, fresh, { ref: 'refs/heads/main' })).status, 202);
      await (await runner.take('fetch_commit')).fetched();
      const question = await hers.get(`${at}/delete`);
      assert.match(words(question), /The hook for Any program, such as curl is deleted/);
      assertDone(await hers.submit(question, `${at}/delete`, { do: 'delete' }), path);
      assert.equal((await hers.get(at)).status, 404);
    });

    test('set how often the repository is polled, and say when that is', async () => {
      assert.match(words(await hers.get(path)), /The repository is not polled\./);
      const wrong = await send(hers, path, 'save_polling', { poll_interval: '7' });
      assert.equal(wrong.status, 403);
      assert.match(wrong.text, /neither 0 nor a number of seconds from 15 to 86400/);
      assert.match(wrong.text, /value="7"/);
      assertDone(await send(hers, path, 'save_polling', { poll_interval: '3600' }), `${path}#polling-title`);
      assert.equal((await owner.get(`/projects/${project.id}`)).record.poll_interval, 3600);
      const shown = words(await theirs.get(path));
      assert.match(shown, /Last poll None yet/);
      assert.match(shown, /Next poll (in a moment|in \d+ minutes|just now)/);
      assertDone(await send(hers, path, 'save_polling', { poll_interval: '0' }), `${path}#polling-title`);
    });

    test('make schedules, with their times and the next one in words', async () => {
      const list = `${path}/schedules`;
      const wrong = await send(theirs, list, 'create_schedule', { cron: 'now and then', time_zone: 'Nowhere/Else' });
      assert.equal(wrong.status, 403);
      assert.match(wrong.text, /There is no such time zone\./);
      assert.match(wrong.text, /value="now and then"/);
      const fields = { cron: '0 3 * * *', time_zone: 'Europe/Berlin', commit_ref: 'stable' };
      assertDone(await send(theirs, list, 'create_schedule', fields), list);
      const [schedule] = (await owner.get(`/projects/${project.id}/schedules`)).list;
      const shown = words(await theirs.get(list));
      assert.match(
        shown,
        /At 03:00, every day \(Europe\/Berlin\) 0 3 \* \* \* , stable in (\d+ hours|1 hour|\d+ minutes|1 minute|a moment) Never/,
      );
      const at = `${path}/schedules/${schedule?.id}`;
      assertDone(await send(theirs, at, 'save', { ...fields, cron: '30 4 * * *' }), at);
      assert.match((await hers.get(at)).text, /value="30 4 \* \* \*"/);
      assert.match(words(await hers.get(at)), /Runs At 04:30, every day \(Europe\/Berlin\)/);
      assert.ok(!(await theirs.get(at)).text.includes(`${at}/delete`), 'what is the owner’s alone is not offered');
      assert.equal((await theirs.get(`${at}/delete`)).status, 403);
      assertDone(await hers.submit(await hers.get(`${at}/delete`), `${at}/delete`, { do: 'delete' }), list);
    });

    test('say what becomes of forks and of older builds, and offer the badge', async () => {
      const statuses = `${path}/statuses`;
      assert.ok(!(await hers.get(statuses)).text.includes('badge.svg'));
      const policies = { fork_builds: 'approval', cancel_superseded: 'running' };
      assertDone(await send(hers, path, 'save_policies', policies), `${path}#policies-title`);
      assertDone(await send(hers, statuses, 'save_badge', { public_badge: 'true' }), statuses);
      const { record } = await owner.get(`/projects/${project.id}`);
      const { fork_builds, cancel_superseded, public_badge } = record;
      assert.deepEqual([fork_builds, cancel_superseded, public_badge], ['approval', 'running', true]);
      const shown = await hers.get(statuses);
      const markdown = textOf(shown, 'badge-markdown');
      const [, address = ''] =
        /^\[!\[build\]\((https:[^)]+)\)\]\(https:[^)]+\/ui\/projects\/\d+\)$/.exec(markdown) ?? [];
      assert.equal((await service.api.get(new URL(address).pathname)).status, 200);
      const facts = words(await theirs.get(path));
      assert.match(facts, /Pull requests from forks Built without secrets after a user approves/);
      assert.match(words(await theirs.get(statuses)), /Public badge Yes/);
      for (const form of ['save_policies', 'save_polling', 'create_hook', 'create_status_target', 'save_badge'])
        for (const page of [path, statuses])
          assert.ok(!(await theirs.get(page)).text.includes(`value="${form}"`), form);
      const key = formKeyOf(await theirs.get(path));
      const tried = [
        await theirs.post(path, { form_key: key, do: 'save_policies', fork_builds: 'without_secrets' }),
        await theirs.post(statuses, { form_key: key, do: 'save_badge', public_badge: 'false' }),
      ];
      assert.deepEqual(
        tried.map(({ status }) => status),
        [403, 403],
      );
    });

    test('have a page each, and the settings say which is open', async () => {
      const open: Record<string, string> = {
        [path]: 'Triggers',
        [`${path}/schedules`]: 'Schedules',
        [`${path}/statuses`]: 'Statuses',
      };
      for (const [page, name] of Object.entries(open)) {
        const { text } = await hers.get(page);
        const [, nav = ''] = /<nav aria-label="Settings"[^>]*>(.*?)<\/nav>/s.exec(text) ?? [];
        assert.deepEqual(
          Array.from(nav.matchAll(/<a href="[^"]*" aria-current="true"\s*>([^<]*)</g), ([, word]) => word),
          [name],
        );
        assert.match(text, new RegExp(`<h1>${name}</h1>`));
      }
    });

    test('tell a forge of statuses, and show what it was told', async () => {
      const list = `${path}/statuses`;
      await using forge = await Receiver.start(reply(201));
      const token = 'ghp_0123456789_oystercatcher';
      const wrong = await send(hers, list, 'create_status_target', { provider: 'github', repository: 'x', token });
      assert.equal(wrong.status, 403);
      assert.match(wrong.text, /This is no name of a repository/);
      const fields = { provider: 'github', repository: 'team/code', api_url: `http://127.0.0.1:${forge.port}`, token };
      assertDone(await send(hers, list, 'create_status_target', fields), list);
      await owner.createSuite(project, { name: markup });
      await owner.requestBuild(project, aCommit.sha);
      await (await runner.take('run_suite')).exit(0);
      await forge.received(3);
      const [target] = (await owner.get(`/projects/${project.id}/status_targets`)).list;
      const at = `${path}/status_targets/${target?.id}`;
      for (const page of [list, at]) {
        const { text } = await hers.get(page);
        assert.ok(text.includes(`headrace/${escaped}: passed`) && !text.includes(markup), page);
        assert.ok(!text.includes('oystercatcher'), page);
      }
      const question = await hers.get(`${at}/delete`);
      assert.match(words(question), /GitHub no longer gets statuses for team\/code/);
      assertDone(await hers.submit(question, `${at}/delete`, { do: 'delete' }), list);
      assert.equal((await theirs.get(at)).status, 403);
    });

    test('say of a request from a fork what it is, and let somebody approve it', async () => {
      const own = await owner.createProject({ fork_builds: 'approval' });
      await owner.invite(own, helper);
      const about = { ...fromFork, sender: markup, targetBranch: markup };
      const { request } = await trigger(service.store, own, 'b'.repeat(40), about);
      const at = `/ui/projects/${own.id}/requests/${request?.id}`;
      const shown = await theirs.get(at);
      assert.match(words(shown), /waiting for approval/);
      assert.match(words(shown), /pull request 7 into/);
      assert.match(shown.text, />\s*Approve\s*<\/button>/);
      assert.match(words(shown), /It comes from a fork, so it is built without secrets/);
      assert.ok(shown.text.includes(escaped) && !shown.text.includes(markup));
      assert.match(words(await theirs.get(`/ui/projects/${own.id}`)), /waiting for approval Build request for/);
      assertDone(await theirs.submit(shown, at, { do: 'approve' }), at);
      assert.ok(!(await theirs.get(at)).text.includes('value="approve"'));
      const fork = {
        sha: 'b'.repeat(40),
        branches: [],
        branch: '',
        ref: 'refs/pull/7/head',
        defaultHead: 'none' as const,
      };
      await (await runner.take('fetch_commit')).fetched(fork);
      assert.match(words(await theirs.get(`/ui/projects/${own.id}`)), /in pull request 7 from a fork/);
      const again = await theirs.post(at, { form_key: formKeyOf(await theirs.get(at)), do: 'approve' });
      assert.equal(again.status, 403);
    });

    test('are not there for a stranger [promise: account-walls]', async () => {
      const stranger = new Tab(service);
      await stranger.signIn((await service.user()).credentials);
      assert.equal((await stranger.get(path)).status, 404);
    });
  },
  {
    settings: { webhook_allow: '127.0.0.0/8' },
    webhooks: { retryPolicy: { firstWait: 20, longestWait: 40 } },
  },
);

function formKeyOf({ text }: Answer): string {
  return /name="form_key" value="([^"]+)"/.exec(text)?.[1] ?? assert.fail('no form');
}
