import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { entryView } from '../../../src/server/auth/audit.ts';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import { openStore } from '../../../src/cli/operator/store.ts';
import { endLeftShells } from '../../../src/server/dispatch/shells.ts';
import { shellFrame, shellFrameReader, textOf, type ShellFrame } from '../../../src/shared/domain/shell-frames.ts';
import { graceMs } from '../../../src/server/outputs/shells.ts';
import type { ShellOrder } from '../../../src/shared/protocol/index.ts';
import { scopes, type Scope } from '../../../src/server/http/route.ts';
import { registerApplication } from '../../support/applications.ts';
import { allEntries } from '../../support/audit.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeWithRunner, ScriptedRunner } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { failAndKeep } from '../../support/shells.ts';
import type { User } from '../../support/user.ts';

const files = { location: 'location-of-the-tests', name: 'name-of-the-files', key: 'ab'.repeat(32) };
const patient = new AbortController().signal;

/** The server's half of shells, with a runner that does what the test says. */
describeWithRunner(
  'a shell',
  (service, runner, database) => {
    let alice: User;
    let build: RunningBuild;
    before(async () => {
      alice = await service.user();
      build = await failed(alice);
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
    const type = (user: User, path: string, offset: number, text: string) =>
      user.post(`${path}/input`, { offset: String(offset), data: Buffer.from(text).toString('base64') });
    /** Reads what the shell shows, from a position on. */
    const follow = async (user: User, path: string, from = 0) => {
      const answer = await service.api.open(`${path}/output?from=${from}`, { as: user.credentials });
      assert.equal(answer.statusCode, 200);
      const read = shellFrameReader();
      const frames = (async function* all(): AsyncGenerator<ShellFrame> {
        for await (const piece of answer as AsyncIterable<Buffer>) yield* read(piece);
      })();
      const next = async (): Promise<string> => {
        const { value } = await frames.next();
        return value ? `${value.letter} ${textOf(value.content)}` : 'over';
      };
      return { next, end: () => answer.destroy() };
    };

    /** One of the sides was last heard of a while ago. */
    const leave = async (path: string, side: 'client_seen_at' | 'runner_seen_at'): Promise<bigint> => {
      const id = BigInt(path.split('/').at(-1) ?? '');
      const seen = { [side]: BigInt(Date.now() - graceMs - 1) };
      await service.store.db.transaction((trx) => trx.updateTable('shells').set(seen).where('id', '=', id).execute());
      return id;
    };

    test('goes through the server in both directions, each byte once, whatever is repeated', async () => {
      const path = await open(alice, build);
      const order = await take();
      assert.ok(order);
      const { id, name, key, buildId, source, lastsMs } = order;
      assert.deepEqual([name, key, buildId], [files.name, files.key, String(build.id)]);
      assert.equal(path.endsWith(id), true);
      assert.match(source.privateKey, /PRIVATE KEY/);
      assert.ok(lastsMs > 23 * 3600 * 1000 && lastsMs <= 24 * 3600 * 1000);

      const input = (from: number) => runner.dispatch.shellInput(runner.self, { shell: id, from }, patient);
      const typed = type(alice, path, 0, 'first');
      assert.equal((await input(0))?.toString(), 'first');
      assert.equal((await input(0))?.toString(), 'first'); // the answer was lost on its way to the runner
      const more = input(5);
      assert.equal((await typed).record.taken, 5);
      const again = await type(alice, path, 0, 'first'); // the answer was lost on its way to the person
      assert.equal(again.record.taken, 5);
      const second = type(alice, path, 5, ' second');
      assert.equal((await more)?.toString(), ' second');
      const last = input(12);
      assert.equal((await second).record.taken, 12);

      const say = (offset: number, bytes: Uint8Array) =>
        runner.dispatch.shellOutput(runner.self, { shell: id, offset, bytes }, patient);
      const frame = shellFrame('d', 'shown');
      const said = say(0, frame);
      const person = await follow(alice, path);
      assert.equal(await person.next(), 'd shown');
      assert.deepEqual(await said, { at: frame.length });
      // Somebody whose connection broke comes back to where they were, and is told everything from there on.
      person.end();
      const back = await follow(alice, path, 0);
      const all = Buffer.concat([frame, shellFrame('d', 'more'), shellFrame('x', '7')]);
      let at: number = frame.length;
      const saying = (async () => {
        while (at < all.length) at = (await say(at, all.subarray(at)))?.at ?? at;
      })();
      assert.deepEqual([await back.next(), await back.next(), await back.next()], ['d shown', 'd more', 'x 7']);
      await saying;
      await runner.dispatch.shellEnd(runner.self, { shell: id, reason: 'exited' });
      assert.equal(await last, undefined);
      assert.equal(await back.next(), 'm The shell is over.');
      assert.equal(await input(12), undefined);
      assert.equal(await say(99, frame), undefined);
      assertRefused(await type(alice, path, 12, 'late'), 404, { generic: ['not_found'] });
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
        const refused = [
          await other.get(`${path}/output`),
          await type(other, path, 0, 'rm -r .'),
          await other.delete(path),
        ];
        for (const answer of refused) assertRefused(answer, 404, { generic: ['not_found'] });
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
      const ask = (token: string, method: string, path: string, form?: Record<string, string>) =>
        service.api.ask(method, path, { headers: { authorization: `Bearer ${token}` }, ...(form && { form }) });
      const path = await open(alice, build);
      const typing = { offset: '0', data: 'eA==' };
      for (const refused of [
        await ask(others, 'POST', `${build.path}/shell`),
        await ask(others, 'GET', `${path}/output`),
        await ask(others, 'POST', `${path}/input`, typing),
        await ask(others, 'DELETE', path),
      ])
        assertRefused(refused, 401, { generic: ['unauthorized'] });
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
      const bytes = Buffer.from('x');
      assert.equal(await thief.dispatch.shellInput(thief.self, { shell, from: 0 }, patient), undefined);
      assert.equal(await thief.dispatch.shellOutput(thief.self, { shell, offset: 0, bytes }, patient), undefined);
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
      const person = await follow(debtor, path);
      await service.suspend(debtor);
      const answer = await type(debtor, path, 0, 'late');
      assertRefused(answer, 401, { generic: ['account_suspended'] });
      assert.equal(await person.next(), 'over'); // who listens is let go a moment later
      await runner.dispatch.shellEnd(runner.self, { shell: order?.id ?? '', reason: 'client_gone' });
    });

    test('ends when one of its sides is gone, and the other one hears of it', async () => {
      const first = await open(alice, build);
      await take();
      const id = await leave(first, 'client_seen_at');
      assert.equal(await runner.dispatch.shellInput(runner.self, { shell: String(id), from: 0 }, patient), undefined);
      const second = await open(alice, build);
      await take();
      await leave(second, 'runner_seen_at');
      const person = await follow(alice, second);
      assert.equal(await person.next(), 'm The runner that has the files of this build is gone.');
      assert.equal(await person.next(), 'x 3');
      assert.equal(await person.next(), 'over');
    });

    test('is kept for who says that they are there, and ended once for who does not', async () => {
      const [quiet, kept] = [await open(alice, build), await open(alice, build)];
      const [lost, known] = [await leave(quiet, 'client_seen_at'), await leave(kept, 'client_seen_at')];
      assert.deepEqual((await alice.post(`${kept}/input`, { offset: '7' })).record, { taken: 7 });
      // Who only reads is told, and changes nothing.
      assert.equal(await (await follow(alice, quiet)).next(), 'm The shell is over.');
      for (let time = 0; time < 2; time += 1) await endLeftShells(service.store);
      const ends = (await allEntries(service)).map(entryView).filter(({ action }) => action === 'shell.ended');
      const endsOf = (id: bigint) => ends.filter(({ subject }) => subject?.id === id).map(({ details }) => details);
      assert.deepEqual([endsOf(lost), endsOf(known)], [[{ reason: 'client_gone' }], []]);
      assertRefused(await alice.post(`${quiet}/input`, { offset: '0' }), 404, { generic: ['not_found'] });
      assert.equal((await alice.delete(kept)).status, 200);
    });

    test('leaves in the audit log that it was there, and nothing of what was typed [promise: shell-audit]', async () => {
      const secret = 'typed-by-a-curlew';
      const path = await open(alice, build);
      const order = await take();
      const id = BigInt(order?.id ?? 0);
      for (let time = 0; time < 3; time += 1) (await follow(alice, path)).end();
      const person = await follow(alice, path);
      for (let time = 0; time < 2; time += 1) assert.equal((await type(alice, path, 0, '')).status, 200);
      const typed = type(alice, path, 0, secret);
      assert.equal(
        (await runner.dispatch.shellInput(runner.self, { shell: String(id), from: 0 }, patient))?.toString(),
        secret,
      );
      const said = runner.dispatch.shellOutput(
        runner.self,
        { shell: String(id), offset: 0, bytes: shellFrame('d', secret) },
        patient,
      );
      assert.equal(await person.next(), `d ${secret}`);
      await said;
      await runner.dispatch.shellEnd(runner.self, { shell: String(id), reason: 'idle' });
      await typed;
      const entries = (await allEntries(service))
        .filter(({ action, subject_id: subject }) => action.startsWith('shell.') && subject === id)
        .map(entryView);
      assert.deepEqual(
        entries.map(({ action, actor, details }) => [action, actor?.email, details]),
        [
          ['shell.opened', alice.email, { build_id_str: String(build.id) }],
          ['shell.connected', alice.email, {}],
          ['shell.ended', alice.email, { reason: 'idle' }],
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
        const store = await openStore(service.config, assert.ifError);
        const other = await ScriptedRunner.start(store);
        try {
          const elsewhere = new ScriptedRunner(other.dispatch, runner.self);
          const path = await open(alice, build);
          const order = await take(elsewhere);
          const shell = order?.id ?? '';
          const long = 'typed '.repeat(2000);
          const person = await follow(alice, path);
          let heard = '';
          const hearing = (async () => {
            for (;;) {
              const some = await other.dispatch.shellInput(runner.self, { shell, from: heard.length }, patient);
              if (!some) return;
              heard += some.toString();
            }
          })();
          for (let at = 0; at < long.length;) at = Number((await type(alice, path, at, long.slice(at))).record.taken);
          assert.equal(heard, long);
          const frame = shellFrame('d', long);
          const shown = person.next();
          for (let at = 0; at < frame.length;) {
            const piece = { shell, offset: at, bytes: frame.subarray(at) };
            at = (await other.dispatch.shellOutput(runner.self, piece, patient))?.at ?? at;
          }
          assert.equal(await shown, `d ${long}`);
          await alice.delete(path);
          await hearing; // the other server has heard that it is over
        } finally {
          await other.dispatch.close();
          await store.close();
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
