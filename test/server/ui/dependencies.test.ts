import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Answer } from '../../support/client.ts';
import { compiled, compilingAgain } from '../../support/compiling.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const markup = '<img src=x onerror=alert(1)>"\'&';
const escaped = '&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;';

describeServiceOnOne('pages of dependencies and of operators', (service, database) => {
  let operator: User;
  let owner: User;
  let other: User;
  let hers: Tab;
  let his: Tab;
  let runner: ScriptedRunner;
  before(async () => {
    [operator, owner, other] = [await service.user(), await service.user(), await service.user()];
    hers = await signedIn(owner);
    his = await signedIn(other);
    runner = await ScriptedRunner.start(service.store);
    database.afterwards(() => runner.dispatch.close());
  });

  const signedIn = async (user: User): Promise<Tab> => {
    const tab = new Tab(service);
    await tab.signIn(user.credentials);
    return tab;
  };
  const send = async (tab: Tab, page: string, action: string, fields: Record<string, string> = {}) =>
    tab.submit(await tab.get(page), page, { do: action, ...fields });
  const assertDone = (answer: Answer, goesTo: string): void => {
    assert.equal(answer.status, 303, answer.text);
    assert.equal(String(answer.headers.location).replace(/[?&]done=\w+/, ''), goesTo);
  };
  /** Sends a file by the form of a page, as a browser without scripts does. */
  const uploadAt = async (tab: Tab, page: string, file: Buffer): Promise<Answer> => {
    const { text } = await tab.get(page);
    const [, action = ''] = /action="([^"]+\/upload\?form_key=[^"]+)"/.exec(text) ?? [];
    const head = '--b\r\ncontent-disposition: form-data; name="archive"; filename="a.tar"\r\n\r\n';
    const cookie = Array.from(tab.cookies, ([name, value]) => `${name}=${value}`).join('; ');
    return service.api.post(action.replaceAll('&amp;', '&'), {
      headers: { cookie, 'content-type': 'multipart/form-data; boundary=b' },
      body: Buffer.concat([Buffer.from(head), file, Buffer.from('\r\n--b--\r\n')]),
    });
  };

  test('describe one, take its source, show its compile, share it, and delete it when nothing uses it', async () => {
    const wrong = await send(hers, '/ui/dependencies/new', 'create', { name: markup, command: 'make', prefix: '/usr' });
    assert.equal(wrong.status, 403);
    assert.match(wrong.text, /Prefix is reserved: choose another\./);
    assert.ok(wrong.text.includes(`value="${escaped}"`) && !wrong.text.includes(markup));
    const fields = { name: markup, command: 'make install PREFIX=/srv/dependency', description: markup };
    const made = await send(hers, '/ui/dependencies/new', 'create', fields);
    const [dependency] = (await owner.get('/dependencies')).list;
    assert.ok(dependency);
    const at = `/ui/dependencies/${dependency.id}`;
    assertDone(made, at);
    for (const page of ['/ui/dependencies', at, `${at}/delete`]) {
      const { status, text } = await hers.get(page);
      assert.ok(status === 200 && text.includes(escaped) && !text.includes(markup), page);
    }

    const none = await uploadAt(hers, at, Buffer.from('no archive'));
    assert.equal(none.status, 403);
    assert.match(none.text, /This file is neither a tar nor a zip archive\./);
    assertDone(await uploadAt(hers, at, await archiveOf({ hello: 'hello\n' })), at);
    const busy = await uploadAt(hers, at, await archiveOf({ hello: 'hello\n' }));
    assert.match(busy.text, /an earlier upload is still compiling/);
    const task = await runner.take('compile_dependency');
    await task.writeLog(`checking ${markup}\n`);
    const compiling = await hers.get(at);
    assert.match(compiling.text, /compiling<\/span>[^]*checking &lt;img/);
    assert.ok(!compiling.text.includes(markup) && !compiling.text.includes('>Share<'));
    await compiled(runner, task);

    assertDone(await send(hers, at, 'share'), at);
    const market = await his.get('/ui/marketplace?name=IMG');
    assert.ok(market.text.includes(escaped) && !market.text.includes(markup));
    assert.match((await his.get('/ui/marketplace?name=nothing-like-it')).text, /Nothing like that is shared/);
    const seen = await his.get(at);
    assert.ok(seen.status === 200 && !/>\s*(Save|Delete|Share|Stop sharing|Upload source)\s*</.test(seen.text));

    const project = await owner.createProject({ name: 'user of it' });
    const suite = await owner.createSuite(project, { name: 'needs it' });
    await owner.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: dependency.id });
    const foreign = await other.createProject({ name: 'hidden project' });
    const hidden = await other.createSuite(foreign);
    const use = `/projects/${foreign.id}/suites/${hidden.id}/dependencies`;
    await other.post(use, { dependency_id: dependency.id });
    const used = await hers.get(at);
    assert.match(used.text, /needs it<\/a> of[^]*user of it[^]*One use of other accounts/);
    assert.ok(!used.text.includes('hidden project'));
    const refused = await send(hers, `${at}/delete`, 'delete');
    assert.equal(refused.status, 403);
    assert.match(refused.text, /It is in use\./);

    // His suite keeps what it has until he updates it on its page.
    const again = await compilingAgain(owner, runner, dependency);
    assert.match((await hers.get(at)).text, />\s*Stop sharing\s*</);
    await compiled(runner, again.task, 'something newer');
    const suitePage = `/ui/projects/${foreign.id}/settings/suites/${hidden.id}`;
    assert.match((await his.get(suitePage)).text, /Something newer is shared\./);
    assertDone(
      await send(his, suitePage, 'update_dependency', { dependency_id: `${dependency.id}` }),
      `${suitePage}#dependencies`,
    );
    assert.doesNotMatch((await his.get(suitePage)).text, /Something newer is shared\./);

    assertDone(await send(hers, at, 'unshare'), at);
    assert.equal((await his.get(at)).status, 404);
    await other.delete(`${use}/${dependency.id}`);
    await owner.delete(`/projects/${project.id}`);
    assertDone(await send(hers, `${at}/delete`, 'delete'), '/ui/dependencies');
    assert.equal((await hers.get(at)).status, 404);
  });

  test('say what one is compiled against, and compile it again', async () => {
    const [zlib, lua] = [await owner.createDependency({ name: 'zlib' }), await owner.createDependency({ name: 'lua' })];
    const at = `/ui/dependencies/${lua.id}`;
    assert.match((await hers.get(at)).text, new RegExp(`name="related_dependencies\\[\\]"\\s+value="${zlib.id}"`));
    const fields = { name: 'lua', command: 'make install /srv/dependency' };
    assertDone(await send(hers, at, 'save', { ...fields, 'related_dependencies[]': `${zlib.id}` }), at);
    const related = async () => (await owner.get(`/dependencies/${lua.id}`)).record.related_dependencies as unknown[];
    assert.equal((await related()).length, 1);
    const circular = await send(hers, `/ui/dependencies/${zlib.id}`, 'save', {
      ...fields,
      name: 'zlib',
      'related_dependencies[]': `${lua.id}`,
    });
    assert.match(circular.text, /is itself compiled against this dependency/);
    assertDone(await send(hers, at, 'save', { ...fields, 'related_dependencies[]': '' }), at);
    assert.equal((await related()).length, 0);
    const { task } = await compilingAgain(owner, runner, lua);
    await task.finish({ kind: 'uncompilable' });
    assertDone(await send(hers, at, 'compile'), at);
    const next = await runner.take('compile_dependency');
    await next.finish({ kind: 'uncompilable' });
  });

  test('are not there for others, and take nothing from another site', async () => {
    const own = await owner.createDependency({ name: 'private one' });
    const at = `/ui/dependencies/${own.id}`;
    const key = /name="form_key" value="([^"]+)"/.exec((await his.get('/ui/')).text)?.[1] ?? '';
    for (const page of [at, `${at}/delete`]) assert.equal((await his.get(page)).status, 404, page);
    for (const action of ['save', 'compile', 'share', 'unshare', 'delete']) {
      const page = action === 'delete' ? `${at}/delete` : at;
      assert.equal((await his.post(page, { form_key: key, do: action })).status, 404, action);
    }
    const archive = await archiveOf({ hello: 'hello\n' });
    const page = await hers.get(at);
    const stolen = await service.api.post(`${at}/upload?form_key=${key}`, {
      headers: {
        cookie: Array.from(his.cookies, ([name, value]) => `${name}=${value}`).join('; '),
        'content-type': 'multipart/form-data; boundary=b',
      },
      body: archive,
    });
    assert.equal(stolen.status, 404);
    const [, action = ''] = /action="([^"]+\/upload\?form_key=[^"]+)"/.exec(page.text) ?? [];
    const cookie = Array.from(hers.cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const headers = { cookie, 'content-type': 'multipart/form-data; boundary=b', 'sec-fetch-site': 'cross-site' };
    assert.equal((await service.api.post(action, { headers, body: archive })).status, 403);
    assert.equal((await service.api.post(`${at}/upload`, { headers: { cookie }, body: archive })).status, 403);
    assert.equal((await owner.get(`/dependencies/${own.id}`)).record.archive_file_size, null);
    const collaborator = await signedIn(await service.user('collaborator'));
    const start = (await collaborator.get('/ui/')).text;
    assert.doesNotMatch(start, /href="\/ui\/(?:dependencies|marketplace)"/);
    assert.match((await hers.get('/ui/')).text, /href="\/ui\/dependencies"[^]*href="\/ui\/marketplace"/);
    for (const page of ['/ui/dependencies', '/ui/dependencies/new']) {
      assert.equal((await collaborator.get(page)).status, 403, page);
    }
  });

  test('show operators how the installation is, and nobody else that there is such a page', async () => {
    const at = '/ui/operations';
    const key = /name="form_key" value="([^"]+)"/.exec((await hers.get('/ui/')).text)?.[1] ?? '';
    assert.equal((await hers.get(at)).status, 404);
    for (const action of ['invite', 'suspend', 'resume', 'link']) {
      const form = { form_key: key, do: action, user_id: '1', email: 'x@example.org' };
      assert.equal((await hers.post(at, form)).status, 404, action);
    }
    assert.ok(!(await hers.get('/ui/')).text.includes(at));
    const project = await owner.createProject();
    await owner.requestBuild(project);
    const tab = await signedIn(operator);
    const { text } = await tab.get(at);
    assert.match(
      text,
      new RegExp(`<td>${owner.email}</td>\\s*<td[^>]*>1 <span[^>]*>waiting</span></td>\\s*<td[^>]*>0 <span`),
    );
    assert.match(text, /Builds in the last 24 hours: at most 0 ran and 0 waited at once/);
    assert.equal((await hers.get(`${at}/audit`)).status, 404);
    const audit = (await tab.get(`${at}/audit`)).text;
    assert.match(audit, new RegExp(`user signed in[^]*${operator.email}[^]*session`));
    for (const shown of ['Node', database.kind === 'sqlite' ? 'SQLite 3' : 'PostgreSQL 1', ' reserved']) {
      assert.ok(text.includes(shown), shown);
    }
    const now = (await operator.get('/operations')).record as unknown as Record<string, Record<string, unknown>>;
    assert.deepEqual([now.queue?.waiting, now.queue?.running], [1, 0]);
    assert.match(String(now.versions?.migration), /^00\d\d-/);
  });

  test('let operators invite people, and suspend and resume accounts', async () => {
    const at = '/ui/operations';
    const tab = await signedIn(operator);
    const invited = await send(tab, at, 'invite', { email: 'Guest@example.org', kind: 'user' });
    assert.equal(invited.status, 200);
    const [link = ''] = /\/ui\/password\?token=[^<"]+/.exec(invited.text) ?? [];
    const guest = new Tab(service);
    const form = await guest.get(link);
    assert.match(form.text, /guest@example\.org/);
    const taken = await send(tab, at, 'invite', { email: 'guest@example.org', kind: 'user' });
    assert.match(taken.text, /E-mail is already in use\./);

    const [account] = (await operator.get('/users?email=GUEST@')).list;
    assert.deepEqual([account?.email, account?.has_password, account?.suspended], ['guest@example.org', false, false]);
    const who = { user_id: String(account?.id) };
    const renewed = await send(tab, at, 'link', who);
    const [newer = ''] = /\/ui\/password\?token=[^<"]+/.exec(renewed.text) ?? [];
    assert.notEqual(newer, link);
    assert.match((await guest.get(link)).text, /was used already|newer one took its place/);
    const password = 'a long enough password';
    const setting = await guest.get(newer);
    assert.equal((await guest.submit(setting, '/ui/password', { password, again: password })).status, 303);
    // Whoever has a password, or was let into a project, is nobody that an operator may become.
    assert.match((await send(tab, at, 'link', who)).text, /They have a password already\./);
    const project = await owner.createProject();
    await owner.invite(project, { email: 'invited@example.org' });
    const [member] = (await operator.get('/users?email=invited@')).list;
    const reserved = await send(tab, at, 'link', { user_id: String(member?.id) });
    assert.equal(reserved.status, 403);
    assert.match(reserved.text, /This account has access to a project/);

    const own = await send(tab, at, 'suspend', { user_id: await idOf(operator) });
    assert.match(own.text, /This is your own account/);
    assertDone(await send(tab, at, 'suspend', { user_id: await idOf(other) }), at);
    assert.equal((await other.get('/whoami')).status, 401);
    assertDone(await send(tab, at, 'resume', { user_id: await idOf(other) }), at);
    assert.equal((await other.get('/whoami')).status, 200);
    const actions = (await operator.get('/audit?limit=5')).list.map(({ action }) => action);
    assert.deepEqual(actions.slice(0, 2), ['user.resumed', 'user.suspended']);
  });

  const idOf = async (user: User): Promise<string> =>
    String((await operator.get(`/users?email=${user.email}`)).list[0]?.id);

  test('say whose receivers fail, by their host alone', async () => {
    const project = await owner.createProject();
    const url = 'http://127.0.0.1:9/a-secret-path';
    const notification = await owner.createNotification(project, { 'options[url]': url });
    const failing = async () => {
      const { failing_deliveries: list } = (await operator.get('/operations')).record;
      return (list as Record<string, unknown>[]).find(({ notification_id: id }) => id === notification.id);
    };
    let found = await failing();
    while (!found) found = await failing();
    assert.deepEqual([found.host, found.account, found.status], ['127.0.0.1:9', owner.email, null]);
    assert.equal(found.project_name, project.name);
    const { text } = await (await signedIn(operator)).get('/ui/operations');
    assert.ok(text.includes('127.0.0.1:9') && !text.includes('a-secret-path'));
  });
});
