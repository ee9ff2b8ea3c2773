import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import { entryView } from '../../../src/server/auth/audit.ts';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import { endLeftShells } from '../../../src/server/dispatch/shells.ts';
import { bytes } from '../../../src/shared/domain/bounds.ts';
import { shellIsOver } from '../../../src/shared/domain/shell-stream.ts';
import { graceMs } from '../../../src/server/outputs/shells.ts';
import type { ShellOrder } from '../../../src/shared/protocol/index.ts';
import { scopes, type Scope } from '../../../src/server/http/route.ts';
import { registerApplication } from '../../support/applications.ts';
import { allEntries } from '../../support/audit.ts';
import { assertRefused } from '../../support/expect.ts';
import { basic } from '../../support/client.ts';
import { describeWithRunner, type ScriptedRunner } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { handshake, ShellEnd, shellRunner, socketTo } from '../../support/shell-ends.ts';
import { failAndKeep } from '../../support/shells.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const files = { location: 'location-of-the-tests', name: 'name-of-the-files', key: 'ab'.repeat(32) };
const patient = new AbortController().signal;

/** The server's half of shells, with a runner that does what the test says. */
describeWithRunner(
  'a shell',
  (service, scripted, database) => {
    let alice: User;
    let build: RunningBuild;
    let remote: Awaited<ReturnType<typeof shellRunner>>;
    let runner: ScriptedRunner;
    const ends: ShellEnd[] = [];
    before(async () => {
      remote = await shellRunner(service, scripted);
      runner = remote.scripted;
      alice = await service.user();
      build = await failed(alice);
    });
    afterEach(() => {
      for (const end of ends.splice(0)) end.end();
    });

    /** A build that failed, and whose files this runner keeps. */
    const failed = async (user: User, kept: Partial<typeof files> | null = {}, status = 1): Promise<RunningBuild> => {
      const running = await runningBuild(user, runner);
      assert.equal(running.task.order.work.keep?.hours, 24);
      await recordHeartbeat(service.store.db, runner.self, { version: '', trouble: '' });
      const report = { claim: running.task.order.claim, outcome: { kind: 'exited', status } as const, logSize: 0 };
      await runner.dispatch.finish(runner.self, { ...report, ...(kept && { kept: { ...files, ...kept } }) });
      return running;
    };
    const open = async (user: User, { path }: RunningBuild): Promise<string> => {
      // Whom nobody has heard of for 20 seconds is away, and on a slow machine the last time was before that.
      await recordHeartbeat(service.store.db, runner.self, { version: '', trouble: '' });
      const { record, status } = await user.post(`${path}/shell`);
      assert.equal(status, 201);
      assert.equal(typeof record.expires_at, 'string');
      return `${path}/shell/${record.id}`;
    };
    const take = async (by = runner, running: string[] = []): Promise<ShellOrder | undefined> =>
      (await by.dispatch.shells(by.self, { location: files.location, running, room: 4 }, patient))[0];
    const connected = (end: ShellEnd): ShellEnd => {
      ends.push(end);
      return end;
    };
    const runnerEnd = (id: string): ShellEnd => connected(remote.end(id));
    const socketOf = (user: User, path: string, at: Service = service) =>
      socketTo(at, `${path}/connection`, { headers: { authorization: basic(user.credentials) } });
    const personEnd = (user: User, path: string, at?: Service): ShellEnd =>
      connected(new ShellEnd(() => socketOf(user, path, at)));
    const refused = (path: string, user: User, headers: Record<string, string> = {}) =>
      service.api.get(`${path}/connection`, { as: user.credentials, headers: { ...handshake, ...headers } });

    /** One of the sides was last heard of a while ago. */
    const leave = async (path: string, side: 'client_seen_at' | 'runner_seen_at'): Promise<bigint> => {
      const id = BigInt(path.split('/').at(-1) ?? '');
      const seen = { [side]: BigInt(Date.now() - graceMs - 1) };
      await service.store.db.transaction((trx) => trx.updateTable('shells').set(seen).where('id', '=', id).execute());
      return id;
    };

    test('goes through the server in both directions, each byte once, whichever connection breaks', async () => {
      const path = await open(alice, build);
      const order = await take();
      assert.ok(order);
      const { id, name, key, buildId, source, lastsMs } = order;
      assert.deepEqual([name, key, buildId], [files.name, files.key, String(build.id)]);
      assert.equal(path.endsWith(id), true);
      assert.match(source.privateKey, /PRIVATE KEY/);
      assert.ok(lastsMs > 23 * 3600 * 1000 && lastsMs <= 24 * 3600 * 1000);

      const person = personEnd(alice, path);
      const early = person.send('d', 'before the runner is there');
      const far = runnerEnd(id);
      assert.equal(await far.next(), 'd before the runner is there');
      await early;
      const told = far.send('d', 'shown');
      assert.equal(await person.next(), 'd shown');
      await told;
      // What is sent while a connection is broken comes after it.
      person.break();
      const missed = [far.send('d', 'missed'.repeat(2000)), person.send('d', 'typed meanwhile')];
      assert.equal(await far.next(), 'd typed meanwhile');
      assert.equal(await person.text(12_000), 'missed'.repeat(2000));
      await Promise.all(missed);
      far.break();
      const again = [person.send('d', 'again'), far.send('x', '7')];
      assert.equal(await far.next(), 'd again');
      assert.equal(await person.next(), 'x 7');
      await Promise.all(again);
      assert.deepEqual([person.connections, far.connections], [2, 2]);
      await runner.dispatch.shellEnd(runner.self, { shell: id, reason: 'exited' });
      for (const end of [person, far]) {
        assert.equal(await end.next(), 'm The shell has ended.');
        assert.equal(await end.next(), 'x 3');
        assert.equal(await end.next(), 'over');
      }
      // So does whoever comes later.
      assert.equal(await personEnd(alice, path).next(), 'm The shell has ended.');
    });

    test('is only in a build that failed, whose files are kept, on a runner that is there', async () => {
      const passed = await failed(alice, null, 0);
      assertRefused(await alice.post(`${passed.path}/shell`), 403, { build_state: ['invalid_format'] });
      // A runner cannot have the files of a build that passed kept either.
      const odd = await failed(alice, {}, 0);
      assert.equal((await keptRows(odd)).length, 0);
      const unkept = await failed(alice, null);
      assertRefused(await alice.post(`${unkept.path}/shell`), 404, { files: ['not_found'] });
      const running = await runningBuild(alice, runner);
      assertRefused(await alice.post(`${running.path}/shell`), 403, { build_state: ['invalid_format'] });
      await running.task.exit(0);
      const { db } = service.store;
      const change = (change: { expires_at?: bigint; holder?: string }) =>
        db.transaction((trx) => trx.updateTable('kept_builds').set(change).where('id', '=', old.id).execute());
      const old = await failed(alice);
      await change({ holder: 'runner that went away' });
      assertRefused(await alice.post(`${old.path}/shell`), 403, { runner: ['resource_temporary_unavailable'] });
      await change({ holder: runner.self.holder, expires_at: BigInt(Date.now()) });
      assertRefused(await alice.post(`${old.path}/shell`), 404, { files: ['not_found'] });
    });

    test('is told of with its build while it can be opened', async () => {
      const until = async ({ path }: RunningBuild): Promise<unknown> => (await alice.get(path)).record.files_kept_until;
      const kept = await failed(alice);
      const shown = Date.parse(String(await until(kept))) - Date.now();
      assert.ok(shown > 23 * 3600 * 1000 && shown <= 24 * 3600 * 1000);
      assert.equal(await until(await failed(alice, null)), undefined);
      assert.equal(await until(await failed(alice, {}, 0)), undefined);
      const { db } = service.store;
      const change = (change: { expires_at?: bigint; holder?: string }) =>
        db.transaction((trx) => trx.updateTable('kept_builds').set(change).where('id', '=', kept.id).execute());
      await change({ holder: 'runner that went away' });
      assert.equal(await until(kept), undefined);
      await change({ holder: runner.self.holder, expires_at: BigInt(Date.now()) });
      assert.equal(await until(kept), undefined);
    });

    const keptRows = ({ id }: RunningBuild) =>
      service.store.db.read.selectFrom('kept_builds').selectAll().where('id', '=', id).execute();

    test('is for who opened it, and for no other who may open one [promise: shell-owner]', async () => {
      const [colleague, stranger] = [await service.user(), await service.user()];
      await alice.invite(build.project, colleague);
      const path = await open(alice, build);
      const order = await take();
      for (const other of [colleague, stranger]) {
        for (const answer of [await refused(path, other), await other.delete(path)])
          assertRefused(answer, 404, { generic: ['not_found'] });
      }
      assertRefused(await stranger.post(`${build.path}/shell`), 404, { generic: ['not_found'] });
      // Two people at once have one each.
      const theirs = await open(colleague, build);
      const second = await take(runner, [order?.id ?? '']);
      assert.ok(theirs.endsWith(second?.id ?? '?'));
      for (const [user, one] of [
        [alice, path],
        [colleague, theirs],
      ] as const)
        assert.equal((await user.delete(one)).status, 200);
    });

    test('opens for a token with the scope of shells, and for no other [promise: account-scopes]', async () => {
      const application = await registerApplication(service, alice);
      const all = Object.keys(scopes) as Scope[];
      const others = await application.token(
        alice,
        all.filter((scope) => scope !== 'shells'),
      ); // as before shells
      const own = await application.token(alice, ['shells']);
      const ask = (token: string, method: string, path: string, headers: Record<string, string> = {}) =>
        service.api.ask(method, path, { headers: { ...headers, authorization: `Bearer ${token}` } });
      const path = await open(alice, build);
      for (const refused of [
        await ask(others, 'POST', `${build.path}/shell`),
        await ask(others, 'GET', `${path}/connection`, handshake),
        await ask(others, 'DELETE', path),
      ])
        assertRefused(refused, 401, { generic: ['unauthorized'] });
      const socket = socketTo(service, `${path}/connection`, { headers: { authorization: `Bearer ${own}` } });
      await once(socket, 'open');
      socket.terminate();
      assert.equal((await ask(own, 'DELETE', path)).status, 200);
      const opened = await ask(own, 'POST', `${build.path}/shell`);
      assert.equal(opened.status, 201);
      assert.equal((await ask(own, 'DELETE', `${build.path}/shell/${opened.record.id}`)).status, 200);
    });

    test('leaves room at its runner for other accounts, whoever opens it [promise: shell-share]', async () => {
      const [owner, colleague, other] = [await service.user(), await service.user(), await service.user()];
      const [first, second] = [await failed(owner), await failed(owner)];
      for (const { project } of [first, second]) await owner.invite(project, colleague);
      // All at once, by two people and in two projects: it is the account that counts.
      const tries = [owner, colleague].flatMap((user) => [first, second].map(({ path }) => ({ user, path })));
      const answers = await Promise.all(tries.map(async ({ user, path }) => user.post(`${path}/shell`)));
      const opened = tries.flatMap(({ user, path }, at) => {
        const answer = answers[at] ?? assert.fail();
        return answer.status === 201 ? [{ user, path: `${path}/shell/${answer.record.id}` }] : [];
      });
      assert.equal(opened.length, 2);
      for (const answer of answers.filter(({ status }) => status !== 201))
        assertRefused(answer, 403, { shells: ['resource_temporary_unavailable'] });
      // Others have the rest of the runner.
      const theirs = await failed(other);
      for (let count = 0; count < 2; count += 1) opened.push({ user: other, path: await open(other, theirs) });
      assertRefused(await other.post(`${theirs.path}/shell`), 403, { shells: ['resource_temporary_unavailable'] });
      // A runner that has no room says so at once, to whoever comes next.
      const late = await service.user();
      const another = await failed(late);
      assertRefused(await late.post(`${another.path}/shell`), 403, { shells: ['resource_temporary_unavailable'] });
      // At another runner there is room, and so there is when one is over, or when nobody is at it any more.
      const elsewhere = await failed(owner, { location: 'another-location' });
      opened.push({ user: owner, path: await open(owner, elsewhere) });
      const [closed, left] = opened;
      assert.equal((await closed?.user.delete(closed.path))?.status, 200);
      opened.push({ user: owner, path: await open(owner, first) });
      await leave(left?.path ?? '', 'client_seen_at');
      opened.push({ user: owner, path: await open(owner, first) });
      for (const { user, path } of opened) assert.equal((await user.delete(path)).status, 200);
    });

    test('is given to the runner that has the files, and to no other [promise: shell-runner]', async () => {
      const path = await open(alice, build);
      const thief = runner.beside('another runner');
      const asking = { location: files.location, running: [], room: 4 };
      assert.deepEqual(await thief.dispatch.shells(thief.self, asking, AbortSignal.abort()), []);
      const order = await take();
      const shell = order?.id ?? '';
      const owner = runnerEnd(shell);
      const person = personEnd(alice, path);
      const first = person.send('d', 'secret');
      assert.equal(await owner.next(), 'd secret');
      await first;
      const other = await shellRunner(service, scripted);
      const stolen = connected(other.end(shell));
      void stolen.stream.send('d', 'from a thief');
      assert.equal(await stolen.next(), 'm The shell has ended.');
      const second = owner.send('d', 'from the owner');
      assert.equal(await person.next(), 'd from the owner');
      await second;
      assert.equal(owner.connections, 1);
      await thief.dispatch.shellEnd(thief.self, { shell, reason: 'exited' });
      // Told again to the runner that may not have heard of it, and not to one that runs it.
      assert.equal((await take())?.id, order?.id);
      assert.equal((await alice.delete(path)).status, 200);
    });

    test('is out of reach at once for who may not have it any more [promise: shell-owner]', async () => {
      const debtor = await service.user();
      const own = await failed(debtor);
      const path = await open(debtor, own);
      const order = await take();
      const shell = order?.id ?? '';
      const [person, far] = [personEnd(debtor, path), runnerEnd(shell)];
      const before = person.send('d', 'in time');
      assert.equal(await far.next(), 'd in time');
      await before;
      await service.suspend(debtor);
      void person.stream.send('d', 'late');
      assert.equal(await person.next(), 'm You may no longer use this shell.');
      assertRefused(await refused(path, debtor), 401, { generic: ['account_suspended'] });
      assert.equal(await far.next(), 'm The shell has ended.', 'nothing more was typed, and what runs there ends');
      assert.equal(await reasonOf(shell), 'not_allowed');
    });

    test('is closed for who only listens and may not have it any more [promise: shell-owner]', async () => {
      const debtor = await service.user();
      const path = await open(debtor, await failed(debtor));
      const person = personEnd(debtor, path);
      const shell = (await take())?.id ?? '';
      const far = runnerEnd(shell);
      const told = far.send('d', 'shown');
      assert.equal(await person.next(), 'd shown');
      await told;
      await service.suspend(debtor);
      assert.equal(await person.next(), 'm You may no longer use this shell.'); // a moment later
      assert.equal(await far.next(), 'm The shell has ended.');
    });

    test('ends with the role that it was opened with [promise: lost-rights]', async () => {
      const [owner, member] = [await service.user(), await service.user()];
      const team = (await owner.post('/organisations', { name: `shells-${Date.now()}` })).record;
      const members = `/organisations/${team.id}/members`;
      const { record } = await owner.post(members, { email: member.email, role: 'maintainer' });
      const setRole = async (role: string) =>
        assert.equal((await owner.put(`${members}/${record.id}`, { role })).status, 200);
      const own = await failed(owner);
      await owner.post(`/projects/${own.project.id}/transfer`, { organisation_id: String(team.id) });
      const key = { name: 'KEY', content: 'of-production', 'refs[]': 'main' };
      assert.equal((await owner.post(`/organisations/${team.id}/environment_variables`, key)).status, 201);

      // A maintainer's shell has the limited variables, so it is no developer's.
      const first = await open(member, own);
      const order = await take();
      assert.deepEqual(order?.withheld, []);
      const [person, far] = [personEnd(member, first), runnerEnd(order?.id ?? '')];
      const before = person.send('d', 'as a maintainer');
      assert.equal(await far.next(), 'd as a maintainer');
      await before;
      await setRole('developer');
      void person.stream.send('d', 'env');
      assert.equal(await person.next(), 'm You may no longer use this shell.');
      assert.equal(await far.next(), 'm The shell has ended.');

      // Neither does it help to be away meanwhile and to connect again.
      await setRole('maintainer');
      const second = await open(member, own);
      const there = (await take())?.id ?? '';
      await setRole('developer');
      assert.equal(await personEnd(member, second).next(), 'm You may no longer use this shell.');
      assert.equal(await reasonOf(there), 'not_allowed');
      await setRole('maintainer');
      const unwatched = await open(member, own);
      const third = (await take())?.id ?? '';
      await setRole('developer');
      assert.equal(
        await runnerEnd(third).next(),
        'm not_allowed',
        'its runner ends it, whether or not anybody is there',
      );
      assert.equal((await member.delete(unwatched)).status, 200);

      // A developer's own lacks them, and a viewer has none.
      const last = await open(member, own);
      const lacking = await take();
      assert.deepEqual(lacking?.withheld, ['KEY']);
      const tab = new Tab(service);
      await tab.signIn(member.credentials);
      const [, formKey = ''] = /data-key="([^"]+)"/.exec((await tab.get(`/ui${own.path}/shell`)).text) ?? [];
      const cookie = Array.from(tab.cookies, ([name, value]) => `${name}=${value}`).join('; ');
      const inBrowser = (): WebSocket =>
        socketTo(service, `/ui/data${last}/connection`, {
          headers: { cookie, origin: service.address },
          protocols: ['headrace-shell', formKey],
        });
      const [typing, end] = [connected(new ShellEnd(inBrowser)), runnerEnd(lacking?.id ?? '')];
      const allowed = typing.send('d', 'as a developer');
      assert.equal(await end.next(), 'd as a developer');
      await allowed;
      await setRole('viewer');
      void typing.stream.send('d', 'late');
      assert.equal(await typing.next(), 'm You may no longer use this shell.');
      assert.equal(await end.next(), 'm The shell has ended.');
      assertRefused(await member.post(`${own.path}/shell`), 401, { generic: ['unauthorized'] });
      const ended = (await allEntries(service)).map(entryView).filter(({ action }) => action === 'shell.ended');
      assert.ok(ended.some(({ actor, details }) => actor?.email === member.email && details.reason === 'not_allowed'));
    });

    const reasonOf = async (shell: string): Promise<string | undefined> => {
      const shells = service.store.db.read.selectFrom('shells').select('reason').where('id', '=', BigInt(shell));
      return (await shells.executeTakeFirst())?.reason;
    };

    test('ends when one of its sides is gone, and the other one hears of it', async () => {
      const first = await open(alice, build);
      await take();
      const id = await leave(first, 'client_seen_at');
      assert.equal(await runnerEnd(String(id)).next(), 'm client_gone');
      const second = await open(alice, build);
      await take();
      await leave(second, 'runner_seen_at');
      const person = personEnd(alice, second);
      assert.equal(await person.next(), 'm The runner that has the files of this build is not connected.');
      assert.equal(await person.next(), 'x 3');
      assert.equal(await person.next(), 'over');
    });

    test('is kept for who is there, and ended once for who is not', async () => {
      const [quiet, kept] = [await open(alice, build), await open(alice, build)];
      await take();
      const [lost, known] = [await leave(quiet, 'client_seen_at'), await leave(kept, 'client_seen_at')];
      // It comes back in time: nobody has ended it yet.
      const person = personEnd(alice, kept);
      const seen = service.store.db.read.selectFrom('shells').select('client_seen_at').where('id', '=', known);
      while ((await seen.executeTakeFirstOrThrow()).client_seen_at < BigInt(Date.now() - graceMs / 2)) await pause(10);
      const far = runnerEnd(String(known));
      const back = person.send('d', 'back');
      assert.equal(await far.next(), 'd back');
      await back;
      for (let time = 0; time < 2; time += 1) await endLeftShells(service.store);
      const all = (await allEntries(service)).map(entryView).filter(({ action }) => action === 'shell.ended');
      const endsOf = (id: bigint) => all.filter(({ subject }) => subject?.id === id).map(({ details }) => details);
      assert.deepEqual([endsOf(lost), endsOf(known)], [[{ reason: 'client_gone' }], []]);
      assert.equal(await personEnd(alice, quiet).next(), 'm The shell has ended.');
      assert.equal((await alice.delete(kept)).status, 200);
      assert.equal(await person.next(), 'm The shell was closed.');
    });

    test('is no way for the page of another site [promise: browser-credentials]', async () => {
      const path = await open(alice, build);
      // Some browsers name the site of a WebSocket only in its origin, and add Basic credentials by themselves.
      for (const headers of [{ origin: 'https://evil.example.org' }, { 'sec-fetch-site': 'cross-site' }])
        assertRefused(await refused(path, alice, headers), 401, { generic: ['unauthorized'] });
      assertRefused(await alice.get(`${path}/connection`), 426, { upgrade: ['invalid_format'] });
      assert.equal((await alice.delete(path)).status, 200);
    });

    test('takes no large messages, and holds little for who reads nothing [promise: bounds]', async () => {
      const path = await open(alice, build);
      const id = (await take())?.id ?? '';
      const large = socketOf(alice, path);
      await once(large, 'open');
      large.send(Buffer.alloc(bytes.shellPacket + 1));
      assert.equal((await once(large, 'close'))[0], 1009);
      // What the runner says beyond that waits with the runner, or is lost and said again.
      const silent = socketOf(alice, path);
      await once(silent, 'open');
      silent.pause();
      const wild = remote.link.shell(id) as WebSocket;
      await once(wild, 'open');
      const packet = Buffer.alloc(bytes.shellPacket, 'x');
      const sent = 20_000;
      for (let count = 0; count < sent; count += 1) wild.send(packet);
      while (wild.bufferedAmount > 0) await pause(10);
      let arrived = 0;
      silent.on('message', () => (arrived += 1)).resume();
      const over = once(silent, 'close');
      assert.equal((await alice.delete(path)).status, 200);
      await over;
      assert.ok(arrived > 0 && arrived < sent / 2, `${arrived} of ${sent} were held`);
      wild.terminate();
    });

    test('leaves in the audit log that it was there, and nothing of what was typed [promise: shell-audit]', async () => {
      const secret = 'typed-by-a-curlew';
      const path = await open(alice, build);
      const order = await take();
      const id = order?.id ?? '';
      const [person, far] = [personEnd(alice, path), runnerEnd(id)];
      for (let time = 0; time < 3; time += 1) {
        const sent = person.send('d', secret);
        assert.equal(await far.next(), `d ${secret}`);
        await sent;
        person.break();
      }
      const shown = far.send('d', secret);
      assert.equal(await person.next(), `d ${secret}`);
      await shown;
      await runner.dispatch.shellEnd(runner.self, { shell: id, reason: 'idle' });
      const entries = (await allEntries(service))
        .filter(({ action, subject_id: subject }) => action.startsWith('shell.') && subject === BigInt(id))
        .map(entryView);
      assert.deepEqual(
        entries.map(({ action, actor, address, details }) => [action, actor?.email, address, details]),
        [
          ['shell.opened', alice.email, '127.0.0.1', { build_id_str: String(build.id) }],
          ['shell.connected', alice.email, '127.0.0.1', {}],
          ['shell.ended', alice.email, null, { reason: 'idle' }],
        ],
      );
      assert.ok(!service.log.includes(secret) && !service.log.includes(Buffer.from(secret).toString('base64')));
      assert.ok(!(await everythingStored()).includes(secret));
    });

    const everythingStored = async (): Promise<string> => {
      const { read } = service.store.db;
      const rows = [
        ...(await read.selectFrom('shells').selectAll().execute()),
        ...(await read.selectFrom('audit_entries').selectAll().execute()),
        ...(await read.selectFrom('kept_builds').selectAll().execute()),
      ];
      return JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
    };

    test(
      'may have the person at one server and the runner at another',
      { skip: database.kind === 'sqlite' && 'an SQLite file has one server' },
      async () => {
        const key = join(service.folder, 'master.key');
        const second = new Service(
          { ...database, afterwards: () => {} },
          { settings: { database_url: service.config.database_url ?? '', master_key_file: key } },
        );
        await second.start();
        try {
          const path = await open(alice, build);
          const order = await take();
          const id = order?.id ?? '';
          const long = 'typed '.repeat(20_000);
          // A connection that hangs at the runner's server takes nothing away from the next one.
          const hanging = socketOf(alice, path);
          await once(hanging, 'open');
          const hung = once(hanging, 'close');
          const servers = [second, service];
          const person = connected(new ShellEnd(() => socketOf(alice, path, servers.shift())));
          const far = runnerEnd(id);
          const sent = person.send('d', long);
          assert.equal(await far.text(long.length), long);
          await sent;
          assert.equal((await hung)[0], shellIsOver);
          const shown = far.send('d', long);
          assert.equal(await person.text(long.length), long);
          await shown;
          // It goes on at another server.
          person.break();
          const more = person.send('d', 'more');
          assert.equal(await far.next(), 'd more');
          await more;
          await alice.delete(path);
          assert.equal(await far.next(), 'm The shell has ended.');
        } finally {
          for (const end of ends.splice(0)) end.end();
          await second.stop();
        }
      },
    );
  },
  { streamPauseMs: 200 },
);

describe('without shells', () => {
  describeWithRunner(
    'a server',
    (service, runner) => {
      test('has no files kept, and opens none', async () => {
        const alice = await service.user();
        const running = await runningBuild(alice, runner);
        assert.equal(running.task.order.work.keep, undefined);
        const report = { claim: running.task.order.claim, outcome: { kind: 'exited', status: 1 } as const, logSize: 0 };
        await recordHeartbeat(service.store.db, runner.self, { version: '', trouble: '' });
        await runner.dispatch.finish(runner.self, { ...report, kept: files });
        assertRefused(await alice.post(`${running.path}/shell`), 404, { files: ['not_found'] });
        // Also where files are still kept from the time when shells were on.
        await failAndKeep(service.store, {
          path: (name) => String(name === ':build_id' ? running.id : running.project.id),
        });
        assertRefused(await alice.post(`${running.path}/shell`), 404, { files: ['not_found'] });
        assert.equal((await alice.get(running.path)).record.files_kept_until, undefined);
      });
    },
    { settings: { shell_hours: '0' } },
  );
});
