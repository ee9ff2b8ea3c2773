import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { describeWithRunner } from '../../support/runner.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { MailServer } from '../../support/mail-server.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import type { Record_ } from '../../support/client.ts';
import type { User } from '../../support/user.ts';

/** What a stranger would write to make people look, or to write in the service's name. */
const hostile = '@everyone `<!channel>` [mend](https://evil.example) <b>Passed</b>\r\nSubject: Passed';

describe('news', () => {
  let mail: MailServer;
  const settings: Record<string, string> = {
    smtp_from: 'Headrace <ci@example.org>',
    webhook_allow: '127.0.0.0/8',
  };
  before(async () => {
    mail = await MailServer.start();
    settings.smtp_url = mail.url;
  });
  after(() => mail[Symbol.asyncDispose]());

  describeWithRunner(
    'of a request that is over',
    (service, runner) => {
      let commits = 0;
      /** Builds a commit of the branch, to this exit status. */
      async function build(user: User, project: Record_, branch: string, status: number): Promise<void> {
        await user.requestBuild(project, branch);
        commits += 1;
        const own = {
          defaultBranch: 'main',
          sha: commits.toString(16).padStart(40, '0'),
          message: hostile,
          branches: [branch],
          branch,
        };
        const isDefault = branch === 'main' ? ('this' as const) : ('kept' as const);
        await (
          await runner.take('fetch_commit')
        ).fetched({ ...own, ref: `refs/heads/${branch}`, defaultHead: isDefault });
        const job = await runner.take('run_suite');
        await job.writeLog('one\ntwo\nassertion failed\n');
        await job.exit(status);
      }

      const create = async (user: User, project: Record_, fields: Record<string, string>): Promise<Record_> => {
        const answer = await user.post(`/projects/${project.id}/notifications`, {
          notifiable_type: 'build',
          ...fields,
        });
        assert.equal(answer.status, 201, answer.text);
        return answer.record;
      };

      /** The states of the deliveries, newest first, become these. */
      async function settled(user: User, path: string, states: readonly string[]): Promise<void> {
        for (;;) {
          const found = (await user.get(path)).list.map(({ state }) => state);
          if (found.every((state) => state !== 'pending')) return assert.deepEqual(found, states);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }

      test('of a branch that fails and passes again, in each chat’s form, without a stranger’s words', async () => {
        await using stack = new AsyncDisposableStack();
        const ada = await service.user();
        const project = await ada.createProject();
        await ada.createSuite(project);
        const chats = new Map<string, Receiver>();
        for (const name of ['slack', 'mattermost', 'discord', 'teams', 'matrix']) {
          const receiver = await Receiver.start(reply(200, '{}'));
          stack.use(receiver);
          chats.set(name, receiver);
          const matrix = {
            'options[homeserver]': `http://127.0.0.1:${receiver.port}`,
            'options[room]': '!a:b.example',
          };
          const options =
            name === 'matrix' ? { ...matrix, 'options[token]': 'syt_secret' } : { 'options[url]': receiver.url };
          const made = await create(ada, project, { name, ...options });
          assert.deepEqual([made.on, made.branches, made.secret], ['changes', [], '']);
        }
        await using failures = await Receiver.start();
        await create(ada, project, {
          name: 'webhook',
          'options[url]': failures.url,
          on: 'failures',
          'branches[]': 'dev*',
        });

        await build(ada, project, 'main', 0);
        await build(ada, project, 'develop', 1);
        for (const status of [1, 1, 0]) await build(ada, project, 'main', status);

        for (const [name, receiver] of chats) {
          const [ping, failed, mended] = (await receiver.received(3)).map(({ body }) => body);
          assert.match(ping ?? '', /sends news/, name);
          assert.match(failed ?? '', /Failed: /, name);
          assert.match(failed ?? '', /0{8} @everyone ['`](?:<|&lt;)!channel/, name);
          assert.match(mended ?? '', /Passes again/, name);
          assert.equal(receiver.calls.length, 3, name);
          assert.doesNotMatch(failed ?? '', /Subject: Passed/, name);
        }
        const slack = JSON.parse(chats.get('slack')?.calls[1]?.body ?? '') as { text: string };
        assert.match(slack.text, /`0{8} @everyone '&lt;!channel&gt;' \[mend\]/);
        const discord = JSON.parse(chats.get('discord')?.calls[1]?.body ?? '') as { allowed_mentions: object };
        assert.deepEqual(discord.allowed_mentions, { parse: [] });
        const [, failed] = chats.get('matrix')?.calls ?? [];
        const { formatted_body: html } = JSON.parse(failed?.body ?? '') as { formatted_body: string };
        assert.match(html, /<code>0{8} @everyone `&lt;!channel&gt;` \[mend\]\(https:\/\/evil\.example\) &lt;b&gt;/);
        const [matrix] = chats.get('matrix')?.calls ?? [];
        assert.match(
          matrix?.path ?? '',
          /^\/_matrix\/client\/v3\/rooms\/!a%3Ab\.example\/send\/m\.room\.message\/\d+$/,
        );
        assert.equal(matrix?.headers.authorization, 'Bearer syt_secret');
        assert.deepEqual(await failures.types(3), ['ping', 'build.failed', 'commit.failed']);
        assert.ok(!service.log.includes('syt_secret'));
      });

      test('by e-mail to the people of the project, each a letter of their own, until they want none', async () => {
        const [ada, grace, stranger] = [await service.user(), await service.user('collaborator'), await service.user()];
        const project = await ada.createProject();
        await ada.createSuite(project);
        await ada.invite(project, grace);
        const path = `/projects/${project.id}/notifications`;
        const fields = { notifiable_type: 'build', name: 'email', on: 'failures' };
        const refused = await ada.post(path, { ...fields, 'options[to]': `${ada.email}, ${stranger.email}` });
        assertWrongFields(refused, { 'options[to]': 'invalid_format' });
        const before = (await mail.letters(0)).length;
        const made = await create(ada, project, { ...fields, 'options[to]': `${ada.email}, ${grace.email}` });
        assert.deepEqual(made.options, { to: `${ada.email}, ${grace.email}` });
        const pings = (await mail.letters(before + 2)).slice(before);
        assert.deepEqual(new Set(pings.map(({ headers }) => headers.get('to'))), new Set([ada.email, grace.email]));

        await grace.put('/account/news', { by_email: 'false' });
        await build(ada, project, 'main', 3);
        const [letter, ...more] = (await mail.letters(before + 3)).slice(before + 2);
        assert.equal(more.length, 0);
        assert.equal(letter?.headers.get('to'), ada.email);
        assert.match(letter?.headers.get('subject') ?? '', /^Failed: /);
        assert.match(letter?.headers.get('list-unsubscribe') ?? '', /\/ui\/account>$/);
        assert.equal(letter?.headers.has('bcc'), false);
        assert.match(letter?.body ?? '', /Failed with exit status 3/);
        assert.match(letter?.body ?? '', /assertion failed/);
        assert.match(letter?.body ?? '', /&lt;b&gt;Passed/);
        await settled(ada, `${path}/${made.id}/deliveries`, ['delivered', 'delivered', 'delivered']);
      });

      test('goes to nobody who has left', async () => {
        const [ada, leaver] = [await service.user(), await service.user()];
        const project = await ada.createProject();
        await ada.createSuite(project);
        const { id } = await ada.invite(project, leaver);
        const options = { 'options[to]': `${leaver.email}, ${ada.email}` };
        const before = (await mail.letters(0)).length;
        await create(ada, project, { notifiable_type: 'build', name: 'email', on: 'failures', ...options });
        await mail.letters(before + 2);
        await ada.delete(`/projects/${project.id}/collaborators/${id}`);
        await build(ada, project, 'main', 3);
        const failures = (await mail.letters(before + 3)).slice(before + 2);
        assert.deepEqual(
          failures.map(({ headers }) => headers.get('to')),
          [ada.email],
        );
      });
    },
    { settings },
  );
});
