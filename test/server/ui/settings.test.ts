import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Answer, Record_ } from '../../support/client.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { addBuild, addCommit, addDelivery, addDeliveryAttempt } from '../../support/rows.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const markup = '<img src=x onerror=alert(1)>"\'&';
const escaped = '&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;';

describeServiceOnOne(
  'the settings of a project',
  (service, database) => {
    let owner: User;
    let helper: User;
    let stranger: User;
    let hers: Tab;
    let theirs: Tab;
    let project: Record_;
    let path: string;
    before(async () => {
      [owner, helper, stranger] = [await service.user(), await service.user('collaborator'), await service.user()];
      hers = await signedIn(owner);
      theirs = await signedIn(helper);
      project = await owner.createProject({ name: 'Sluice' });
      path = `/ui/projects/${project.id}`;
      await owner.invite(project, helper);
    });

    const signedIn = async (user: User): Promise<Tab> => {
      const tab = new Tab(service);
      await tab.signIn(user.credentials);
      return tab;
    };
    /** Sends a form of a page. */
    const send = async (tab: Tab, page: string, action: string, fields: Record<string, string | undefined> = {}) =>
      tab.submit(await tab.get(page), page, { do: action, ...fields });
    const assertDone = (answer: Answer, goesTo: string): void => {
      assert.equal(answer.status, 303, answer.text);
      assert.equal(String(answer.headers.location).replace(/[?&]done=\w+/, ''), goesTo);
    };
    /** Follows the button `Delete` and answers what the page says that it asks with; then deletes. */
    const deleteAt = async (tab: Tab, page: string): Promise<[string, Answer]> => {
      const question = await tab.get(page);
      assert.equal(question.status, 200, question.text);
      assert.match(question.text, /<button class="danger"\s*>\s*Delete\s*<\/button>/);
      return [question.text, await tab.submit(question, page, { do: 'delete' })];
    };
    const create = async (kind: string, fields: Record<string, string>): Promise<Record_> => {
      const answer = await owner.post(`/projects/${project.id}/${kind}`, fields);
      assert.equal(answer.status, 201, answer.text);
      return answer.record;
    };

    test('change the project, keep what was typed when something is wrong, and delete it', async () => {
      const own = await owner.createProject({ name: 'short-lived', description: 'old' });
      const at = `/ui/projects/${own.id}/settings`;
      assertDone(
        await send(hers, at, 'save', { name: markup, clone_url: ' git clone ssh://example.org:2222/a/b.git' }),
        at,
      );
      assert.equal((await owner.get(`/projects/${own.id}`)).record.clone_url, 'ssh://git@example.org:2222/a/b.git');
      const wrong = await send(hers, at, 'save', { name: '', clone_url: 'nowhere', description: 'typed here' });
      assert.equal(wrong.status, 403);
      assert.match(wrong.text, /Name is missing\./);
      assert.match(wrong.text, /This is no address of a repository, such as/);
      assert.match(wrong.text, /value="nowhere"[^]*typed here/);
      const { text } = await hers.get(at);
      assert.ok(text.includes(escaped) && !text.includes(markup));
      const [question, gone] = await deleteAt(hers, `${at}/delete`);
      assert.ok(question.includes(escaped) && !question.includes(markup));
      assertDone(gone, '/ui/');
      assert.equal((await owner.get(`/projects/${own.id}`)).status, 404);
    });

    test('create, change, filter and delete suites', async () => {
      const at = `${path}/settings/suites`;
      const made = await send(hers, at, 'create', {
        name: markup,
        command: 'npm ci\r\nnpm test',
        description: `about ${markup}`,
      });
      const [suite] = (await owner.get(`/projects/${project.id}/suites`)).list;
      assert.ok(suite);
      assertDone(made, `${at}/${suite.id}`);
      assert.deepEqual([suite.name, suite.command], [markup, 'npm ci\nnpm test']);
      for (const page of [at, `${at}/${suite.id}`, `${at}/${suite.id}/delete`]) {
        const { text } = await hers.get(page);
        assert.ok(text.includes(escaped) && !text.includes(markup), page);
      }
      const twice = await send(hers, at, 'create', { name: markup, command: 'true' });
      assert.equal(twice.status, 403);
      assert.match(twice.text, /Name is already in use\./);
      assertDone(
        await send(hers, `${at}/${suite.id}`, 'save', { name: 'unit', command: 'make', description: '' }),
        `${at}/${suite.id}`,
      );
      const [question, gone] = await deleteAt(hers, `${at}/${suite.id}/delete`);
      assert.match(question, /<strong>unit<\/strong>[^]*0 rules[^]*0 variables/);
      assertDone(gone, at);
      assert.deepEqual((await owner.get(`/projects/${project.id}/suites`)).list, []);
      for (let number = 0; number < 21; number += 1) await create('suites', { name: `s${number}`, command: 'x' });
      const filtered = await hers.get(`${at}?filter=S20`);
      assert.ok(filtered.text.includes('>s20</a>') && !filtered.text.includes('>s19</a>'));
    });

    test('say which limit a value goes beyond, and keep all that was typed', async () => {
      const tags = Array.from({ length: 17 }, (_, number) => `t${number}`).join(' ');
      const typed = { name: 'x'.repeat(256), command: '\nmake', 'tags[]': tags, retries: '4' };
      const { status, text } = await send(hers, `${path}/settings/suites`, 'create', typed);
      assert.equal(status, 403);
      const limits = ['Name is longer than 255 characters.', 'At most 16 entries, of up to 64 characters each.'];
      for (const said of [...limits, 'This is no number from 0 to 3.', `value="${tags}"`])
        assert.ok(text.includes(said), said);
      // A browser drops the first line break of an area.
      assert.ok(text.includes('>\n\nmake</textarea>'));
    });

    test('name what keeps a suite from being deleted', async () => {
      const needed = await create('suites', { name: 'base', command: 'make', manual: 'true' });
      const needing = await create('suites', { name: 'on top', command: 'make', 'needs[]': String(needed.id) });
      const strategy = { name: 'ship it', strategy_type: 'suite', 'options[suite_id]': String(needed.id) };
      const running = await create('deploy_strategies', strategy);
      const page = `${path}/settings/suites/${needed.id}/delete`;
      const [question, refused] = await deleteAt(hers, page);
      const words = question.replaceAll(/\s+/g, ' ');
      assert.match(words, new RegExp(`/suites/${needing.id}">on top</a> needs it`));
      assert.match(words, new RegExp(`/deploys/${running.id}">ship it</a> runs it`));
      assert.match(refused.text, /It is in use\. Take it off everything that uses it first\./);
      await owner.delete(`/projects/${project.id}/deploy_strategies/${running.id}`);
      await owner.delete(`/projects/${project.id}/suites/${needing.id}`);
      const [free, answer] = await deleteAt(hers, page);
      assert.doesNotMatch(free, /cannot be deleted/);
      assertDone(answer, `${path}/settings/suites`);
    });

    test('give a suite rules', async () => {
      const suite = await owner.createSuite(project);
      const at = `${path}/settings/suites/${suite.id}`;
      const rules = async () => (await owner.get(`/projects/${project.id}/suites/${suite.id}/rules`)).list;
      const rule = { subject: 'commit.branches', operator: 'equals', value: markup };
      assertDone(await send(hers, at, 'add_rule', rule), `${at}#rules`);
      const bad = await send(hers, at, 'add_rule', { ...rule, operator: 'matches', value: '(' });
      assert.equal(bad.status, 403);
      assert.match(bad.text, /This is no regular expression/);
      const [made] = await rules();
      const shown = await hers.get(at);
      assert.match(shown.text, /branches of the commit equals <code>&lt;img/);
      const one = `${at}/rules/${made?.id}`;
      assertDone(await send(hers, one, 'save', { ...rule, operator: 'starts_with', value: 'v1' }), `${at}#rules`);
      assert.deepEqual(
        (await rules()).map(({ operator, value }) => [operator, value]),
        [['starts_with', 'v1']],
      );
      const [question, gone] = await deleteAt(hers, `${one}/delete`);
      assert.match(question, /starts with <code>v1<\/code>/);
      assertDone(gone, `${at}#rules`);
      assert.deepEqual(await rules(), []);
      assert.equal((await hers.get(one)).status, 404);
    });

    for (const has of ['a suite', 'the project'])
      test(`give ${has} variables, whose contents are not in the page before somebody asks`, async () => {
        const suite = await owner.createSuite(project);
        const within = has === 'a suite' ? `/suites/${suite.id}` : '';
        const at = `${path}/settings${within}`;
        const of = `/projects/${project.id}${within}/environment_variables`;
        const boxes = { 'unchecked[]': 'secret' };
        const content = `hush-${markup}`;
        const added = await send(hers, at, 'add_variable', { name: 'TOKEN', content, secret: 'true', ...boxes });
        assertDone(added, `${at}#variables`);
        assertDone(
          await send(hers, at, 'add_variable', { name: 'OPEN', content: 'plain', ...boxes }),
          `${at}#variables`,
        );
        const wordy = await send(hers, at, 'add_variable', {
          name: 'W',
          content: 'production',
          secret: 'true',
          ...boxes,
        });
        assert.match(String(wordy.headers.location), /done=masks_words/);
        const [token, open] = (await owner.get(of)).list;
        assert.deepEqual([token?.secret, open?.secret, open?.content], [true, false, 'plain']);
        const hidden = await hers.get(at);
        assert.ok(!hidden.text.includes('hush-') && hidden.text.includes('TOKEN'));
        assert.equal(hidden.headers['content-encoding'], undefined);
        const shown = await hers.get(`${at}?show=${token?.id}`, { 'accept-encoding': 'gzip' });
        assert.equal(shown.headers['content-encoding'], undefined);
        assert.ok(shown.text.includes(`hush-${escaped}`) && !shown.text.includes('>plain<'));

        for (const name of [markup, 'CI', '9']) {
          const refused = await send(hers, at, 'add_variable', { name, content: 'secret-typed', ...boxes });
          assert.equal(refused.status, 403);
          assert.ok(!refused.text.includes(markup));
        }
        const one = `${at}/variables/${token?.id}`;
        assert.ok(!(await hers.get(one)).text.includes('hush-'));
        assertDone(
          await send(hers, one, 'save', { name: 'KEY', content: '', secret: 'true', ...boxes }),
          `${at}#variables`,
        );
        const kept = (await owner.get(of)).list[0];
        assert.deepEqual([kept?.name, kept?.content], ['KEY', content]);
        const seen = `${one}?show=1`;
        assert.ok((await hers.get(seen)).text.includes(`hush-${escaped}`));
        const emptied = await hers.submit(await hers.get(seen), one, {
          do: 'save',
          name: 'KEY',
          content: '',
          ...boxes,
        });
        assertDone(emptied, `${at}#variables`);
        const now = (await owner.get(of)).list[0];
        assert.deepEqual([now?.content, now?.secret], ['', false]);
        const [question, gone] = await deleteAt(hers, `${one}/delete`);
        assert.match(question, /<strong>KEY<\/strong>/);
        assertDone(gone, `${at}#variables`);
        assert.equal((await owner.get(of)).list.length, 2);
      });

    test('give a suite dependencies; a collaborator names them by number', async () => {
      const suite = await owner.createSuite(project);
      const at = `${path}/settings/suites/${suite.id}`;
      const attached = async () => (await owner.get(`/projects/${project.id}/suites/${suite.id}/dependencies`)).list;
      assert.match((await hers.get(at)).text, /There is nothing to add/);
      const [zlib, lua] = [await owner.createDependency({ name: markup }), await owner.createDependency()];
      const page = await hers.get(at);
      assert.ok(page.text.includes(`<option value="${zlib.id}"`) && !page.text.includes(markup));
      assertDone(await send(hers, at, 'add_dependency', { dependency_id: `${zlib.id}` }), `${at}#dependencies`);
      assertDone(await send(theirs, at, 'add_dependency', { dependency_id: `${lua.id}` }), `${at}#dependencies`);
      const unknown = await send(theirs, at, 'add_dependency', { dependency_id: '77' });
      assert.equal(unknown.status, 404);
      assert.match(unknown.text, /Dependency names nothing that is there\./);
      const [question, gone] = await deleteAt(hers, `${at}/dependencies/${zlib.id}/delete`);
      assert.ok(question.includes(escaped) && !question.includes(markup));
      assertDone(gone, `${at}#dependencies`);
      assert.deepEqual(
        (await attached()).map(({ id }) => id),
        [lua.id],
      );
    });

    test('create, change and delete deploy strategies', async () => {
      const at = `${path}/settings/deploys`;
      const fields = {
        name: markup,
        'options[clone_url]': 'ssh://example.org:2222/live.git',
        'options[local_branch]': 'main',
        'options[remote_branch]': 'production',
      };
      assertDone(await send(hers, at, 'create', { strategy_type: 'git', ...fields }), at);
      const wrong = await send(hers, at, 'create', { ...fields, name: 'x', 'options[local_branch]': 'a..b' });
      assert.equal(wrong.status, 403);
      assert.match(wrong.text, /value="a\.\.b"[^]*This is no name that git takes for a branch\./);
      const listed = await hers.get(at);
      assert.ok(listed.text.includes(escaped) && !listed.text.includes(markup));
      const [strategy] = (await owner.get(`/projects/${project.id}/deploy_strategies`)).list;
      const one = `${at}/${strategy?.id}`;
      assertDone(await send(hers, one, 'save', { ...fields, name: 'live' }), at);
      const lives = await hers.get(at);
      assert.match(lives.text, />live<\/a>/);
      assert.match(lives.text, /<code>ssh:\/\/git@example\.org:2222\/live\.git<\/code>/);
      const [question, gone] = await deleteAt(hers, `${one}/delete`);
      assert.match(question, /<strong>live<\/strong>[^]*production[^]*live\.git/);
      assertDone(gone, at);
      assert.equal((await hers.get(one)).status, 404);
    });

    test('create and change deploy strategies that run a suite, once there is a manual one', async () => {
      const at = `${path}/settings/deploys`;
      const title = 'New strategy that runs a suite';
      assert.ok(!(await hers.get(at)).text.includes(title));
      const plain = await create('suites', { name: 'plain', command: 'make' });
      const ship = await create('suites', { name: markup, command: 'make ship', manual: 'true' });
      const other = await create('suites', { name: 'other', command: 'make', manual: 'true' });
      const offered = (await hers.get(at)).text;
      assert.ok(offered.includes(title) && offered.includes(escaped) && !offered.includes(markup));
      assert.ok(!offered.includes(`<option value="${plain.id}"`), 'only manual ones');
      const fields = { name: 'live', strategy_type: 'suite', 'options[suite_id]': ship.id_str };
      const wrong = await send(hers, at, 'create_by_suite', { ...fields, 'options[suite_id]': plain.id_str });
      assert.equal(wrong.status, 403);
      assert.match(wrong.text, /value="live"/, 'what was typed stays');
      assertDone(await send(hers, at, 'create_by_suite', fields), at);
      assert.ok((await hers.get(at)).text.includes(`the suite ${escaped}`));
      const [strategy] = (await owner.get(`/projects/${project.id}/deploy_strategies`)).list;
      const one = `${at}/${strategy?.id}`;
      assert.match((await hers.get(one)).text, new RegExp(`<option value="${ship.id}" selected>`));
      assertDone(await send(hers, one, 'save', { ...fields, 'options[suite_id]': other.id_str }), at);
      assert.match((await hers.get(at)).text, /the suite other/);
      // The page of the suite says why it has to stay manual.
      const suitePage = `${path}/settings/suites/${other.id}`;
      const refused = await send(hers, suitePage, 'save', { name: 'other', command: 'make', manual: 'false' });
      assert.equal(refused.status, 403);
      assert.match(refused.text, /A deploy strategy runs it, so it stays manual\./);
      const [question, gone] = await deleteAt(hers, `${one}/delete`);
      assert.match(question, /leads to the suite other/);
      assertDone(gone, at);
      for (const suite of [plain, ship, other]) await owner.delete(`/projects/${project.id}/suites/${suite.id}`);
    });

    test('say that a receiver refuses, since when and what it said, and try it now', async () => {
      await using receiver = await Receiver.start(reply(503, markup));
      const own = await owner.createProject({ name: 'refused' });
      const suite = await owner.createSuite(own, { name: 'unit' });
      const commit = await addCommit(service.store, own);
      const buildRequest = await owner.requestBuild(own);
      const build = await addBuild(service.store, own, { commit, buildRequest, suite });
      await owner.post(`/projects/${own.id}/build_requests/${buildRequest.id}/cancel`);
      const at = `/ui/projects/${own.id}/settings/notifications`;
      await send(hers, at, 'create', { name: 'webhook', 'options[url]': receiver.url, notifiable_type: 'build' });
      const [notification] = (await owner.get(`/projects/${own.id}/notifications`)).list;
      const one = `${at}/${notification?.id}`;
      const payload = JSON.stringify({ type: 'build.failed', project: {} });
      const about = { state: 'pending', position: 9n, event_type: 'build.failed', subject_id: build.id, payload };
      await addDelivery(service.store, notification as Record_, about);
      await receiver.received(1);
      const words = async (page: string): Promise<string> => (await hers.get(page)).text.replaceAll(/\s+/g, ' ');
      for (const page of [at, one]) {
        // The answer is noted a moment after it was given.
        let text = '';
        while (!text.includes('Try now')) text = await words(page);
        assert.match(text, /The receiver takes no calls\.<\/strong> The first try failed <time /, page);
        assert.match(text, /It answered <strong>503<\/strong>:/, page);
        assert.match(text, /1 try so far\. Next try: <time [^>]*>[^<]+<\/time\s*>\. 2 deliveries wait\./, page);
        assert.ok(text.includes(escaped) && !text.includes(markup), page);
        const ofBuild = `/ui/projects/${own.id}/builds/${build.id}">unit</a> <a href="/ui/projects/${own.id}/commits/${commit.id}"><code>`;
        assert.ok(text.includes(ofBuild), text);
      }
      receiver.answer = reply(204);
      assertDone(await hers.submit(await hers.get(one), one, { do: 'try_now' }), one);
      assert.deepEqual(await receiver.types(3), ['ping', 'ping', 'build.failed']);
      while ((await words(one)).includes('Try now'));
    });

    test('create notifications, show their secret once, what was sent and what was answered, and send it again', async () => {
      await using receiver = await Receiver.start(reply(200, markup));
      const at = `${path}/settings/notifications`;
      const wrong = await send(hers, at, 'create', {
        name: 'webhook',
        'options[url]': 'ftp://x',
        notifiable_type: 'build',
      });
      assert.equal(wrong.status, 403);
      assert.match(wrong.text, /value="ftp:\/\/x"[^]*This is no web address/);
      const made = await send(hers, at, 'create', {
        name: 'webhook',
        'options[url]': receiver.url,
        notifiable_type: 'build',
      });
      assert.equal(made.status, 200);
      const [secret] = /whsec_[\w+/=]+/.exec(made.text) ?? [];
      assert.ok(secret);
      const [notification] = (await owner.get(`/projects/${project.id}/notifications`)).list;
      assert.ok(notification);
      const one = `${at}/${notification.id}`;
      for (const page of [at, one]) assert.ok(!(await hers.get(page)).text.includes(secret), page);

      const { store } = service;
      const failed = await addDelivery(store, notification, { position: 50n, event_type: 'build.failed' });
      await addDeliveryAttempt(store, failed, { status: 500, answer: markup });
      await addDeliveryAttempt(store, failed, { status: null, answer: '', error: `no ${markup}` });
      for (const page of [at, one]) {
        const { text } = await hers.get(page);
        assert.ok(text.includes(escaped) && text.includes(`no ${escaped}`) && !text.includes(markup), page);
        assert.match(text, /<strong>500<\/strong>[^]*Send again/);
        assert.ok(!text.includes('Try now'), 'nothing waits for a try');
      }
      // What is still on its way is not sent once more: its answer has to be noted first.
      const delivered = async (times: number) => {
        await receiver.received(times);
        for (;;) {
          const sent = await owner.get(`/projects/${project.id}/notifications/${notification.id}/deliveries`);
          const ping = sent.list.at(-1);
          if (ping?.state === 'delivered') return ping;
        }
      };
      const ping = await delivered(1);
      const delivery = { do: 'redeliver', delivery_id: `${ping?.id}` };
      const both = { ...delivery, notification_id: `${notification.id}` };
      assertDone(await hers.submit(await hers.get(at), at, both), `${at}#deliveries`);
      await delivered(2);
      assertDone(await hers.submit(await hers.get(one), one, delivery), `${one}#deliveries`);
      await receiver.received(3);
      assert.deepEqual(await receiver.types(3), ['ping', 'ping', 'ping']);

      assertDone(await send(hers, one, 'save', { 'options[url]': 'https://example.org/hook' }), one);
      const [question, gone] = await deleteAt(hers, `${one}/delete`);
      assert.match(question, /https:\/\/example\.org\/hook/);
      assertDone(gone, at);
      assert.equal((await hers.get(one)).status, 404);
    });

    test('invite members and take them off again', async () => {
      const at = `${path}/settings/members`;
      assertDone(await send(hers, at, 'invite', { email: 'New@Example.org' }), at);
      for (const [email, said] of [
        ['nobody', /This is no e-mail address\./],
        ['new@example.org', /E-mail is already in use\./],
      ] as const) {
        const refused = await send(hers, at, 'invite', { email });
        assert.equal(refused.status, 403);
        assert.match(refused.text, said);
      }
      const member = (await owner.get(`/projects/${project.id}/collaborators`)).list.at(-1);
      assert.equal(member?.email, 'new@example.org');
      const [question, gone] = await deleteAt(hers, `${at}/${member?.id}/delete`);
      assert.match(question, /<strong>new@example\.org<\/strong>/);
      assertDone(gone, at);
      assert.ok(!(await hers.get(at)).text.includes('new@example.org'));
    });

    test('deploy commits and show what is said, while it is said and afterwards', async () => {
      const [at, own] = [`${path}/deploys`, await owner.createProject()];
      assert.match((await hers.get(`/ui/projects/${own.id}/deploys`)).text, /create a strategy/);
      const strategy = await owner.createStrategy(project, { name: markup });
      const none = await send(hers, at, 'deploy', { deploy_strategy_id: `${strategy.id}`, commit_id: '' });
      assert.equal(none.status, 404);
      assert.match(none.text, /Commit names nothing that is there\./);
      const commit = await addCommit(service.store, project, { message: `${markup}\n`, build_state: 'passed' });
      const asked = await send(hers, at, 'deploy', { deploy_strategy_id: `${strategy.id}`, commit_id: `${commit.id}` });
      const [deploy] = (await owner.get(`/projects/${project.id}/deploys`)).list;
      const one = `${at}/${deploy?.id}`;
      assertDone(asked, one);
      const runner = await ScriptedRunner.start(service.store);
      database.afterwards(() => runner.dispatch.close());
      const task = await runner.take('push_deploy');
      await task.writeLog(`pushing ${markup}\n`);
      for (const page of [at, one]) {
        const { text } = await hers.get(page);
        assert.ok(text.includes(escaped) && !text.includes(markup), page);
        assert.match(text, /deploying<\/span>/);
      }
      const live = await hers.get(one);
      assert.ok(live.text.includes('Download log') && live.text.includes('pushing &lt;img'));
      assertDone(await send(hers, one, 'cancel'), one);
      await task.finish({ kind: 'cancelled' });
      await owner.delete(`/projects/${project.id}/deploy_strategies/${strategy.id}`);
      const over = await hers.get(one);
      assert.match(over.text, /cancelled<\/span>/);
      assert.ok(over.text.includes('deleted strategy') && !over.text.includes('>Cancel<'));
    });

    test('keep from collaborators what is the owner’s, and do the rest for them', async () => {
      const suite = await owner.createSuite(project);
      const strategy = await owner.createStrategy(project);
      const notification = await owner.createNotification(project);
      const general = await theirs.get(`${path}/settings`);
      assert.equal(general.status, 200);
      assert.ok(!general.text.includes('Delete this project'));
      // Nothing that deletes stands before what people come for.
      assert.match(
        (await hers.get(`${path}/settings`)).text,
        />\s*Save\s*<[^]*id="key-title"[^]*Delete this project[^]*>\s*Delete\s*</,
      );
      assert.ok(!general.text.includes('>Save<') && !general.text.includes('Members'));
      const closed = [
        `${path}/settings/members`,
        `${path}/settings/delete`,
        `${path}/settings/suites/${suite.id}/delete`,
        `${path}/settings/deploys/${strategy.id}/delete`,
        `${path}/settings/notifications/${notification.id}/delete`,
      ];
      for (const page of closed) {
        assert.equal((await theirs.get(page)).status, 403, page);
        const key = /name="form_key" value="([^"]+)"/.exec(general.text)?.[1] ?? '';
        const action = page.endsWith('members') ? { do: 'invite', email: 'x@example.org' } : { do: 'delete' };
        assert.equal((await theirs.post(page, { form_key: key, ...action })).status, 403, page);
      }
      const at = `${path}/settings/suites/${suite.id}`;
      assert.ok(!(await theirs.get(at)).text.includes('>Delete<'));
      assertDone(await send(theirs, at, 'save', { name: 'theirs', command: 'true', description: '' }), at);
      assert.equal((await owner.get(`/projects/${project.id}/suites/${suite.id}`)).record.name, 'theirs');
    });

    test('are not there for others, and take no form from another site [promise: account-walls]', async () => {
      const suite = await owner.createSuite(project, { name: 'guarded' });
      const pages = ['', '/delete', '/suites', `/suites/${suite.id}`, `/suites/${suite.id}/delete`, '/deploys'];
      const all = [...pages, '/notifications', '/members'].map((page) => `${path}/settings${page}`);
      const other = await signedIn(stranger);
      const own = await stranger.createProject();
      const key = /name="form_key" value="([^"]+)"/.exec((await other.get('/ui/')).text)?.[1] ?? '';
      for (const page of [...all, `${path}/deploys`]) {
        assert.equal((await other.get(page)).status, 404, page);
        for (const action of ['save', 'create', 'delete', 'invite', 'add_rule', 'deploy']) {
          assert.equal((await other.post(page, { form_key: key, do: action })).status, 404, `${action} ${page}`);
        }
      }
      // Their own project's address does not open somebody else's suite.
      assert.equal((await other.get(`/ui/projects/${own.id}/settings/suites/${suite.id}`)).status, 404);

      const at = `${path}/settings/suites/${suite.id}`;
      const page = await hers.get(at);
      const fields = { do: 'save', name: 'stolen', command: 'true', description: '' };
      for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
        assert.equal((await hers.submit(page, at, fields, headers)).status, 403);
      }
      assert.equal((await hers.submit(page, at, { ...fields, form_key: key })).status, 403);
      assert.equal((await hers.post(`${at}/delete`, { do: 'delete' })).status, 403);
      assert.equal((await owner.get(`/projects/${project.id}/suites/${suite.id}`)).record.name, 'guarded');
    });
  },
  {
    settings: { webhook_allow: '127.0.0.0/8' },
    webhooks: { retryPolicy: { firstWait: 600_000, longestWait: 600_000 } },
  },
);
